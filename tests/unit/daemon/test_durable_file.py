import os
from pathlib import Path

import pytest

from hopring.daemon.process.durable_file import replace_file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mark"


def test_the_new_content_is_synced_before_it_replaces_the_old_one_and_then_the_directory_is(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes(b"old")
    synced: list[tuple[str, bytes]] = []

    def note(handle: int) -> None:
        synced.append((Path(f"/proc/self/fd/{handle}").readlink().name, path.read_bytes()))

    monkeypatch.setattr(os, "fsync", note)

    replace_file(path, b"new")

    assert synced == [("mark.new", b"old"), (path.parent.name, b"new")]


def test_what_a_crash_has_left_beside_it_is_overwritten(path: Path) -> None:
    path.with_name("mark.new").write_bytes(b"half of a longer content")

    replace_file(path, b"new")

    assert path.read_bytes() == b"new"
    assert [one.name for one in path.parent.iterdir()] == ["mark"]


def test_a_disk_that_refuses_is_the_callers_error_and_the_old_content_stays(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes(b"old")

    def refuse(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)

    with pytest.raises(OSError, match="No space left"):
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"
