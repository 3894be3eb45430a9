"""The ledger of a stream: a pass has happened completely or not at all, wherever the process is killed."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs Spark: make spark")

from hopring.spark.pipeline.lateness import MINUTE_US, Arrivals, late_rows, learn
from hopring.spark.pipeline.ledger import LedgerFile, StreamLedger

LATE_US = 10 * MINUTE_US


def test_a_pass_that_was_not_committed_leaves_nothing(tmp_path: Path) -> None:
    file = LedgerFile(tmp_path, tmp_path / "own")
    file.begin()
    file.commit(StreamLedger(batches={"eu": 3}), [])
    (file.begin() / "a.parquet").write_text("new")

    again = LedgerFile(tmp_path, tmp_path / "own")
    ledger = again.read()

    assert ledger is not None
    assert (ledger.passes, ledger.batches) == (1, {"eu": 3})
    assert not again.staged.exists()


@pytest.mark.parametrize("moved", [0, 1, 2])
def test_a_pass_that_was_committed_is_completed_by_the_next_start(
    tmp_path: Path, moved: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process is killed after so many files have been moved."""
    file = LedgerFile(tmp_path, tmp_path / "own")
    table = tmp_path / "table"
    table.mkdir()
    (table / "a").write_text("old")
    staged = file.begin()
    files = []
    for name in ("a", "b"):
        (staged / name).write_text(f"new {name}")
        files.append((staged / name, table / name))
    left = [moved]
    replace = Path.replace

    def killed(source: Path, target: Path) -> Path:
        if source.parent == staged:
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
        return replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        if moved < 2:
            with pytest.raises(KeyboardInterrupt):
                file.commit(StreamLedger(), files)
        else:
            file.commit(StreamLedger(), files)

    ledger = LedgerFile(tmp_path, tmp_path / "own").read()

    assert ledger is not None
    assert ledger.passes == 1
    assert [(table / name).read_text() for name in ("a", "b")] == ["new a", "new b"]


def test_a_ledger_of_another_version_counts_as_none(tmp_path: Path) -> None:
    file = LedgerFile(tmp_path, tmp_path)
    file.begin()
    file.commit(StreamLedger(version=0), [])
    assert file.read() is None


def arrived(name: str, minute: int, group: str = "g") -> Arrivals:
    at_us = minute * MINUTE_US
    return Arrivals("records", "", name, group, at_us, 5, at_us + 1_000_000, at_us + 2_000_000)


def test_rows_of_closed_minutes_are_late_and_each_has_its_reason() -> None:
    ledger = StreamLedger()
    first = [arrived("eu", 0), arrived("us", 9), arrived("eu", 20)]
    assert late_rows(ledger, first, LATE_US) == []  # There was no watermark yet.
    learn(ledger, first)

    new = [arrived("eu", 8), arrived("eu", 10), arrived("us", 9), arrived("us", 9, "h"), arrived("us", 2)]
    found = {(one["name"], one["group"], one["minute"].minute): one for one in late_rows(ledger, new, LATE_US)}

    assert {key: one["reason"].partition(":")[0] for key, one in found.items()} == {
        ("eu", "g", 8): "out of order",
        ("us", "g", 9): "this source was behind",
        ("us", "h", 9): "first rows of this source",
        ("us", "g", 2): "this source was behind",
    }
    # The watermark is at 10 min 2 s.
    assert found["eu", "g", 8]["late_seconds"] == 121.0
    assert found["eu", "g", 8]["rows"] == 5
