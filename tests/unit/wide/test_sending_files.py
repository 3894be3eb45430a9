"""Files that programs send: what is brought, what is refused, and when a source is deleted."""

import asyncio
import os
import socket
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import cast

import pytest

from hopring.haul.entries import Answer, FilePieceRequest, FileTaken
from hopring.haul.link.frames import CHUNK_BYTES_MAX
from hopring.wide.errors import FileRefused
from hopring.wide.library.files import PIECES, FileTaking, ReceivedFile, SentFile, sent_file
from hopring.wide.library.requests import MakeRequest
from hopring.wide.library.service import WideService

CONTENT = os.urandom(3 * CHUNK_BYTES_MAX + 17)


class Members:
    """What the members of a cluster say to pieces: they keep them, and compare them when all is there."""

    def __init__(self, when_complete: Callable[[bytes], bytes] = lambda content: content) -> None:
        self.content = b""
        self.pieces: list[tuple[int, int]] = []
        self.whole = False
        self.began = 0
        self._when_complete = when_complete

    async def answer_to(self, _what: str, make: MakeRequest, _timeout_seconds: float | None) -> Answer:
        request = make("vendor", 1, 0)
        assert isinstance(request, FilePieceRequest)
        if request.data:
            self.pieces.append((request.offset, len(request.data)))
            assert request.offset == len(self.content)
            self.content += request.data
        elif len(self.content) == request.size_bytes and not self.whole:
            if sha256(self._when_complete(self.content)).digest() == request.digest:
                self.whole = True
            else:
                self.content = b""
                self.began += 1
        return FileTaken(len(self.content), self.whole)


def take(members: Members, path: Path, name: str | None = None, *, deletes: bool = False) -> SentFile:
    service = cast(WideService, members)

    async def story() -> SentFile:
        file, sent = await FileTaking(service, path, name, deletes=deletes).take(lambda: None)
        assert (file.name, file.size_bytes, file.digest.hex()) == (name or "", sent.size_bytes, sent.sha256)
        return sent

    return asyncio.run(story())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "seg17").write_bytes(CONTENT)
    return tmp_path / "seg17"


def test_a_file_is_brought_in_pieces(path: Path) -> None:
    members = Members()

    sent = take(members, path, "north/seg17")

    assert members.content == CONTENT
    assert [size for _, size in members.pieces] == [CHUNK_BYTES_MAX] * 3 + [17]
    assert (sent.path, sent.host, sent.sha256) == (path, socket.gethostname(), sha256(CONTENT).hexdigest())


def test_a_large_file_is_brought_in_several_turns(tmp_path: Path) -> None:
    content = bytes(PIECES * CHUNK_BYTES_MAX + 1)
    (tmp_path / "large").write_bytes(content)
    members = Members()

    take(members, tmp_path / "large")

    assert members.content == content


def test_what_is_there_is_not_brought_again(path: Path) -> None:
    members = Members()
    members.content = CONTENT[:CHUNK_BYTES_MAX]

    take(members, path)

    assert members.pieces[0][0] == CHUNK_BYTES_MAX
    assert members.content == CONTENT


def test_a_file_that_is_there_is_not_brought(path: Path) -> None:
    members = Members()
    members.content, members.whole = CONTENT, True

    take(members, path)

    assert members.pieces == []


def test_an_empty_file_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")

    assert take(Members(), tmp_path / "empty").size_bytes == 0


def test_content_that_the_members_find_wrong_is_brought_again(path: Path) -> None:
    wrong = [b"wrong"]
    members = Members(lambda content: wrong.pop() if wrong else content)

    take(members, path)

    assert (members.content, members.began) == (CONTENT, 1)


def test_content_that_stays_wrong_is_refused(path: Path) -> None:
    with pytest.raises(FileRefused, match="has not its digest; check the disk"):
        take(Members(lambda _: b"wrong"), path)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("../seg17", "it leaves the directory of its set"),
        ("/seg17", "it leaves the directory of its set"),
        ("a/./b", "it leaves the directory of its set"),
        ("a\\b", "a character that file systems read in their own way"),
        ("incoming/1", "belong to the service"),
        ("a.part", "belong to the service"),
    ],
)
def test_a_name_that_leaves_the_directory_is_refused_with_a_remedy(path: Path, name: str, reason: str) -> None:
    members = Members()

    with pytest.raises(FileRefused, match=f"{reason}.*; give a relative name within the directory") as caught:
        take(members, path, name)

    assert caught.value.what == f"the file {path}"
    assert members.pieces == []


def test_a_file_that_changes_while_it_is_taken_in_is_refused(path: Path) -> None:
    def changing(content: bytes) -> bytes:
        path.write_bytes(b"x" + CONTENT[1:])
        os.utime(path, ns=(1, 1))
        return content

    with pytest.raises(
        FileRefused, match="it has changed while it was taken in; send it when nobody writes to it"
    ):
        take(Members(changing), path)


def test_a_file_that_becomes_shorter_is_refused(path: Path) -> None:
    class Shortening(Members):
        async def answer_to(self, what: str, make: MakeRequest, timeout_seconds: float | None) -> Answer:
            path.write_bytes(b"")
            return await super().answer_to(what, make, timeout_seconds)

    with pytest.raises(FileRefused, match="it has changed while it was taken in"):
        take(Shortening(), path)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    for name, reason in (("nothing", "No such file"), ("pipe", "it is no file"), (".", "Is a directory")):
        with pytest.raises(FileRefused, match=reason):
            take(Members(), tmp_path / name)


def test_a_path_that_does_not_fit_into_a_completion_is_refused(tmp_path: Path) -> None:
    place = tmp_path.joinpath(*["a" * 200] * 5)
    place.mkdir(parents=True)
    (place / "file").write_bytes(b"x")

    with pytest.raises(FileRefused, match="its path is too long; move it"):
        take(Members(), place / "file")


def completion_of(sent: SentFile) -> SentFile:
    found = sent_file(sent.source(), sent.size_bytes, bytes.fromhex(sent.sha256))
    assert found == sent
    return found


def test_the_source_is_deleted_by_whoever_gets_the_completion(path: Path) -> None:
    completed = completion_of(take(Members(), path, deletes=True))

    assert completed.deletes
    assert completed.delete_source()
    assert not path.exists()
    assert not completed.delete_source(), "somebody else was sooner"


def test_a_source_that_is_another_file_now_stays(path: Path) -> None:
    completed = completion_of(take(Members(), path))
    path.write_bytes(b"the next one")

    assert not completed.delete_source()
    assert path.read_bytes() == b"the next one"


def test_a_source_of_another_host_stays(path: Path) -> None:
    sent = take(Members(), path)
    elsewhere = SentFile(sent.path, "elsewhere", sent.size_bytes, sent.sha256, sent.stamp, True)

    assert not elsewhere.delete_source()
    assert path.exists()


@pytest.mark.parametrize("source", ["", "seg17", "[]", "{}", '["a", "b"]', '["a", "b", 1, 2, "x", 4, true]'])
def test_what_another_library_calls_a_source_is_none(source: str) -> None:
    assert sent_file(source, 1, bytes(32)) is None


def test_a_received_file_is_read_and_saved(path: Path, tmp_path: Path) -> None:
    received = ReceivedFile(path, "here", len(CONTENT), sha256(CONTENT).hexdigest())

    with received.open() as file:
        assert file.read(10) == CONTENT[:10]
    assert received.save(tmp_path / "copy").read_bytes() == CONTENT
    assert sorted(one.name for one in tmp_path.iterdir()) == ["copy", "seg17"]
