"""Files with parcels: how they are brought, what waits for them, and what does not."""

from hashlib import sha256

from msgspec.structs import replace
from tests.unit.haul.managers import (
    BOTH,
    HUB,
    NORWAY,
    answer,
    apply,
    cast,
    hub,
    opened,
    received,
)

from hopring.haul.application import ApplicationManager, PeerRefused
from hopring.haul.entries import Accepted, FilePieceRequest, FileTaken, FileVerified, WideRequestRefused
from hopring.haul.ids import ClusterMask, ParcelId, Talk
from hopring.haul.link.frames import ChunkFrame, LinkGeneration, ParcelFrame, SetFrame, WideFile
from hopring.haul.managed_set import SetOptions
from hopring.haul.order.events import CastKind, Parcel
from hopring.haul.order.runs import DescriptorRun
from hopring.haul.states import LineFile
from hopring.haul.stored.shelf import DropFile, FileKey, StoreFilePiece

CONTENT = b"segment 17"
DIGEST = sha256(CONTENT).digest()
KEY = FileKey(DIGEST, 1)
FIRST = LinkGeneration(1, 1)


def piece(number: int, offset: int, data: bytes) -> FilePieceRequest:
    return FilePieceRequest("vendor", number, 0, DIGEST, len(CONTENT), offset, data)


def file(name: str = "seg17") -> WideFile:
    return WideFile(name, len(CONTENT), DIGEST)


def brought() -> ApplicationManager:
    """The hub with a file that is whole."""
    app = hub()
    apply(app, piece(2, 0, CONTENT))
    apply(app, FileVerified(KEY, fits=True))
    return app


def from_norway(number: int, wide_file: WideFile | None) -> ParcelFrame:
    """Parcel and frame of Norway have one number; SET came before them."""
    parcel = ParcelId(NORWAY, number)
    talk = Talk(BOTH, "" if wide_file is None else "files")
    past = () if number == 1 else ((NORWAY, number - 1),)
    run = DescriptorRun(NORWAY, number, number, talk, BOTH, BOTH)
    of = Parcel(parcel, talk, CastKind.CBCAST, BOTH, 0, past)
    return ParcelFrame("tickets", number + 1, 0, of, (run,), b"body", wide_file)


def with_norway() -> ApplicationManager:
    """The hub with a connection to Norway, which has the set."""
    app = hub()
    apply(app, opened(FIRST))
    received(app, SetFrame("tickets", 1, 0, BOTH))
    return app


def test_pieces_are_stored_by_each_member_and_the_answer_says_how_much_is_here() -> None:
    app = hub()

    acts = apply(app, piece(2, 0, CONTENT[:4]))

    assert StoreFilePiece(KEY, 0, CONTENT[:4]) in acts
    assert answer(acts) == FileTaken(4, whole=False)


def test_a_piece_that_comes_again_or_too_early_changes_nothing() -> None:
    app = hub()
    apply(app, piece(2, 0, CONTENT[:4]))

    assert answer(apply(app, piece(3, 0, CONTENT[:4]))) == FileTaken(4, whole=False)
    assert answer(apply(app, piece(4, 6, CONTENT[6:]))) == FileTaken(4, whole=False)
    assert answer(apply(app, piece(5, 0, b""))) == FileTaken(4, whole=False)


def test_a_file_is_whole_when_a_member_has_compared_it() -> None:
    app = hub()
    assert answer(apply(app, piece(2, 0, CONTENT))) == FileTaken(10, whole=False)

    apply(app, FileVerified(KEY, fits=True))

    assert answer(apply(app, piece(3, 10, b""))) == FileTaken(10, whole=True)


def test_a_file_that_changed_while_it_was_taken_in_begins_anew() -> None:
    app = hub()
    apply(app, piece(2, 0, CONTENT))

    acts = apply(app, FileVerified(KEY, fits=False))

    assert DropFile(KEY) in acts
    assert answer(apply(app, piece(3, 10, b""))) == FileTaken(0, whole=False)
    assert app.shelf.files[DIGEST].attempt == 2


def test_a_cast_with_a_file_that_is_not_whole_is_refused() -> None:
    app = hub()
    apply(app, piece(2, 0, CONTENT))

    refused = answer(apply(app, replace(cast(3), file=file())))

    assert isinstance(refused, WideRequestRefused)
    assert refused.kind == "FileRefused"


def test_a_name_that_leaves_the_directory_is_refused() -> None:
    refused = answer(apply(brought(), replace(cast(3), file=file("../seg17"))))

    assert isinstance(refused, WideRequestRefused)
    assert refused.kind == "FileRefused"


def test_an_item_names_the_place_of_its_file() -> None:
    app = brought()

    assert isinstance(answer(apply(app, replace(cast(3), file=file("")))), Accepted)

    (item,) = app.sets["tickets"].line
    assert item.file == LineFile("incoming/1.1", len(CONTENT), DIGEST)


def test_files_have_a_limit() -> None:
    app = ApplicationManager(HUB, ClusterMask(2), SetOptions(files_bytes_max=9))

    refused = answer(apply(app, piece(2, 0, b"")))

    assert isinstance(refused, WideRequestRefused)
    assert refused.kind == "WideFull"


def test_a_file_that_no_parcel_names_is_given_up() -> None:
    app = brought()
    app.now_us = app.wake_at_us

    acts = apply(app, FileVerified(KEY, fits=True))

    assert DropFile(KEY) in acts
    assert not app.shelf.files


def test_a_parcel_waits_for_its_file_and_others_do_not_wait_for_it() -> None:
    app = with_norway()

    received(app, from_norway(1, file()), from_norway(2, None))

    managed = app.sets["tickets"]
    assert [item.parcel.id.number for item in managed.line if item.parcel is not None] == [2]
    assert app.wanted_files(NORWAY) == [(DIGEST, 0)]
    run = managed.core.descriptors.find(ParcelId(NORWAY, 1))
    assert run is not None
    assert run.missing == BOTH


def test_a_file_that_has_come_lets_its_parcel_arrive() -> None:
    app = with_norway()
    received(app, from_norway(1, file()))

    acts = received(app, ChunkFrame(DIGEST, 0, CONTENT[:6]), ChunkFrame(DIGEST, 6, CONTENT[6:]))
    assert [one for one in acts if isinstance(one, StoreFilePiece)] == [
        StoreFilePiece(KEY, 0, CONTENT[:6]),
        StoreFilePiece(KEY, 6, CONTENT[6:]),
    ]
    apply(app, FileVerified(KEY, fits=True))

    (item,) = app.sets["tickets"].line
    assert item.file == LineFile("seg17", len(CONTENT), DIGEST)
    assert app.wanted_files(NORWAY) == []


def test_a_second_parcel_with_a_file_that_is_here_does_not_wait() -> None:
    app = brought()
    apply(app, opened(FIRST))
    received(app, SetFrame("tickets", 1, 0, BOTH))

    received(app, from_norway(1, file()))

    assert len(app.sets["tickets"].line) == 1


def test_a_peer_gets_a_file_while_it_lacks_a_parcel_with_it() -> None:
    app = brought()
    assert app.file_for(NORWAY, DIGEST) is None

    apply(app, replace(cast(3), file=file()))

    assert app.file_for(NORWAY, DIGEST) is not None
    assert app.sets["tickets"].files_for(NORWAY) == len(CONTENT)


def test_a_name_of_a_peer_that_leaves_the_directory_ends_the_connection() -> None:
    app = with_norway()

    acts = received(app, from_norway(1, file("../seg17")))

    assert any(isinstance(one, PeerRefused) for one in acts)
    assert not app.sets["tickets"].parked


def test_a_snapshot_has_files_and_parked_parcels() -> None:
    app = with_norway()
    received(app, from_norway(1, file()), ChunkFrame(DIGEST, 0, CONTENT[:6]))
    other = ApplicationManager(HUB, ClusterMask(2), app.options)

    other.restore(app.snapshot())

    assert other.snapshot() == app.snapshot()
    assert other.wanted_files(NORWAY) == [(DIGEST, 6)]
    apply(other, opened(LinkGeneration(1, 2)))
    received(other, ChunkFrame(DIGEST, 6, CONTENT[6:]), generation=LinkGeneration(1, 2))
    apply(other, FileVerified(KEY, fits=True))
    assert len(other.sets["tickets"].line) == 1
