from pathlib import Path

import pytest

from hopring.daemon.counter_file import BLOCK, COUNTER_MAX, CounterFile, CounterKeeper


def test_without_a_file_counters_start_at_0_and_nothing_is_said(tmp_path: Path) -> None:
    file = CounterFile(tmp_path / "views")

    assert file.start == 0
    assert file.warnings == []


def test_a_restart_begins_above_everything_that_was_reached(tmp_path: Path) -> None:
    first = CounterFile(tmp_path / "views")
    for counter in range(0, 3 * BLOCK, 7):
        first.reached(counter)

    assert CounterFile(tmp_path / "views").start > 3 * BLOCK - 7


def test_the_file_is_written_once_for_a_whole_block(tmp_path: Path) -> None:
    path = tmp_path / "views"
    file = CounterFile(path)
    file.reached(5)
    written = path.stat().st_mtime_ns
    for counter in range(6, 5 + BLOCK):
        file.reached(counter)

    assert path.stat().st_mtime_ns == written


@pytest.mark.parametrize("text", [b"", b"12", b"x\n", b"-5\n", b"9" * 40 + b"\n", b"\xff\xfe\n", b"1 2\n"])
def test_a_damaged_file_is_told_and_counts_as_none(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "views"
    path.write_bytes(text)
    file = CounterFile(path)

    assert file.start == 0
    assert len(file.warnings) == 1
    file.reached(3)
    assert CounterFile(path).start == 3 + BLOCK


def test_a_file_that_cannot_be_read_is_told_and_counts_as_none(tmp_path: Path) -> None:
    path = tmp_path / "views"
    path.mkdir()

    file = CounterFile(path)

    assert file.start == 0
    assert "cannot read" in file.warnings[0]


def test_a_directory_that_is_not_there_is_told_once_and_the_daemon_goes_on(tmp_path: Path) -> None:
    file = CounterFile(tmp_path / "missing" / "views")
    file.reached(1)
    file.reached(2 + BLOCK)

    assert len(file.warnings) == 1
    assert "cannot write" in file.warnings[0]
    assert not list(tmp_path.iterdir())


def test_the_keeper_is_ahead_of_the_counter_without_holding_anybody_up(tmp_path: Path) -> None:
    file = CounterFile(tmp_path / "views")
    file.reached(1)
    keeper = CounterKeeper(file)
    for counter in range(1, 5 * BLOCK):
        keeper.reached(counter)
        if counter % BLOCK == 0:
            keeper.close()
            assert CounterFile(tmp_path / "views").start >= counter + BLOCK // 2


def test_the_keeper_ends_where_counters_end(tmp_path: Path) -> None:
    keeper = CounterKeeper(CounterFile(tmp_path / "views"))
    keeper.reached(2 * COUNTER_MAX)
    keeper.close()

    assert CounterFile(tmp_path / "views").start == COUNTER_MAX
