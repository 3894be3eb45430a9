"""The mark of a vote for a primary view, on a real disk."""

from pathlib import Path

import pytest

from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.process.primary_mark import PrimaryMark


@pytest.fixture
def loop() -> Loop:
    return Loop()


def written(loop: Loop, mark: PrimaryMark) -> bool:
    """Writes the mark, and runs the loop until that is reported."""
    told: list[bool] = []
    mark.write(7, ("eu1", "eu2"), told.append)
    while not told:
        loop.turn()
    return told[0]


def test_a_daemon_without_a_file_has_never_voted(loop: Loop, tmp_path: Path) -> None:
    mark = PrimaryMark(loop, tmp_path / "mark", "bank", "eu1")

    assert not mark.marked
    assert mark.warnings == []


def test_the_next_process_of_the_daemon_finds_the_mark(loop: Loop, tmp_path: Path) -> None:
    assert written(loop, PrimaryMark(loop, tmp_path / "mark", "bank", "eu1"))

    again = PrimaryMark(loop, tmp_path / "mark", "bank", "eu1")
    assert again.marked
    assert again.vote == (7, ("eu1", "eu2"))
    assert again.warnings == []


@pytest.mark.parametrize("content", [b"", b"bank eu1 7 eu1 00000000\n", b"\xff" * 2_000])
def test_a_damaged_mark_counts_and_is_reported(content: bytes, loop: Loop, tmp_path: Path) -> None:
    (tmp_path / "mark").write_bytes(content)

    mark = PrimaryMark(loop, tmp_path / "mark", "bank", "eu1")

    assert mark.marked
    assert mark.vote is None
    assert "is damaged, or the mark of another daemon" in mark.warnings[0]


def test_the_mark_of_another_daemon_is_reported(loop: Loop, tmp_path: Path) -> None:
    written(loop, PrimaryMark(loop, tmp_path / "mark", "bank", "eu1"))

    mark = PrimaryMark(loop, tmp_path / "mark", "bank", "eu2")

    assert mark.marked
    assert "remove the file if it has never been in one" in mark.warnings[0]


def test_a_mark_that_cannot_be_written_is_said_with_the_remedy(loop: Loop, tmp_path: Path) -> None:
    (tmp_path / "mark.new").mkdir()
    mark = PrimaryMark(loop, tmp_path / "mark", "bank", "eu1")
    told: list[str] = []
    mark.warn = told.append

    assert not written(loop, mark)
    assert "make the directory writable" in told[0]
    assert not (tmp_path / "mark").exists()


def test_a_directory_in_its_place_counts_as_a_mark(loop: Loop, tmp_path: Path) -> None:
    (tmp_path / "mark").mkdir()

    assert PrimaryMark(loop, tmp_path / "mark", "bank", "eu1").marked
