"""The sink to a spool without Spark: rows are staged, and published once."""

import os
from pathlib import Path

import pytest
from tests.unit.spark.batches import batch

from hopring.spark.errors import DataLost, ForeignInput, SparkError
from hopring.spark.sink.live import keep
from hopring.spark.sink.options import WriteOptions, check_written, write_options
from hopring.spark.sink.spools import publish
from hopring.spark.sink.staging import (
    ABANDONED_SECONDS,
    INLINE_BYTES_MAX,
    Staged,
    clear,
    stage,
    staging_directory,
)
from hopring.spark.source.options import WrongOption
from hopring.spool.encode import AppendMark
from hopring.spool.reading import read
from hopring.spool.writer import SpoolWriter

pa = pytest.importorskip("pyarrow", reason="needs pyarrow: make arrow")


def rows(root: Path) -> list[tuple[int, bytes]]:
    with SpoolWriter(root, "g") as writer:
        return [(record.type, record.data) for record in read(writer.directory, 0, writer.end)]


def test_rows_are_published_in_the_order_of_tasks_with_their_types(tmp_path: Path) -> None:
    place = tmp_path / "staging"
    staged = [
        stage([batch(b"one", "two"), batch("three")], place),
        stage([], place),
        stage([batch(b"four", types=[7]), batch(b"five", types=[None])], place),
    ]

    done = publish(tmp_path, "g", "me", staged, None)

    assert (done.start, done.end) == (0, 5)
    assert rows(tmp_path) == [(0, b"one"), (0, b"two"), (0, b"three"), (7, b"four"), (0, b"five")]
    assert not place.exists()


def test_a_large_batch_goes_through_a_file_that_is_removed_afterwards(tmp_path: Path) -> None:
    place = staging_directory(tmp_path / "g", "app")
    payloads = [bytes([at]) * 1000 for at in range(200)]
    big = [batch(*payloads, types=list(range(200))) for _ in range(3)]

    staged = stage(big, place)

    assert sum(map(len, payloads)) < INLINE_BYTES_MAX
    assert staged.rows == 600
    assert Path(staged.file).parent == place
    publish(tmp_path, "g", "me", [staged], AppendMark("app", 0))
    clear(place)
    assert rows(tmp_path) == list(enumerate(payloads)) * 3
    assert not place.exists()


def test_a_batch_that_comes_again_is_published_once(tmp_path: Path) -> None:
    first, second = stage([batch("a")], tmp_path), stage([batch("b")], tmp_path)

    publish(tmp_path, "g", "me", [first], AppendMark("app", 0))
    assert publish(tmp_path, "g", "me", [first], AppendMark("app", 0)).replayed
    publish(tmp_path, "g", "me", [second], AppendMark("app", 1))
    # Staged rows are not read: their file may be gone by now.
    assert publish(tmp_path, "g", "me", [Staged(3, file="/nowhere")], AppendMark("app", 1)).replayed
    publish(tmp_path, "g", "me", [first], AppendMark("other", 0))

    assert [data for _, data in rows(tmp_path)] == [b"a", b"b", b"a"]


def test_an_older_batch_is_an_error_and_not_dropped_silently(tmp_path: Path) -> None:
    staged = [stage([batch("a")], tmp_path)]
    publish(tmp_path, "g", "me", staged, AppendMark("app", 5))

    with pytest.raises(DataLost, match="batch 0 of 'app' comes after batch 5; a query with another checkpoint"):
        publish(tmp_path, "g", "me", staged, AppendMark("app", 0))


def test_payloads_are_never_null_and_types_are_16_bits(tmp_path: Path) -> None:
    with pytest.raises(ForeignInput, match="a payload is null; filter those rows out"):
        stage([pa.RecordBatch.from_pydict({"payload": pa.array([b"a", None], pa.binary())})], tmp_path)
    with pytest.raises(ForeignInput, match="a type is not from 0 to 65535"):
        stage([batch(b"a", types=[-1])], tmp_path)


def test_files_of_killed_runs_are_removed_later_and_those_of_other_sinks_stay(tmp_path: Path) -> None:
    mine, old, neighbour = [staging_directory(tmp_path, "app") for _ in range(3)]
    for place in (mine, old, neighbour):
        place.mkdir(parents=True)
    long_ago = os.stat(old).st_mtime - 2 * ABANDONED_SECONDS
    os.utime(old, (long_ago, long_ago))

    clear(mine)

    assert (mine.exists(), old.exists(), neighbour.exists()) == (False, False, True)


def test_the_options_of_a_sink_are_read() -> None:
    said = {"path": "/s", "GROUP": "alarms", "txnAppId": "detector", "checkpointLocation": "/c"}

    its = write_options(said, stream=True)

    assert its == WriteOptions(path="/s", group="alarms", app="detector", checkpoint="/c")
    assert its.mark is None
    numbered = {"path": "/s", "group": "g", "txnAppId": "a", "txnVersion": "7"}
    assert write_options(numbered, stream=False).mark == AppendMark("a", 7)


@pytest.mark.parametrize(
    ("said", "stream", "match"),
    [
        ({"path": "/s"}, False, "option group: it is missing; name the group"),
        ({"path": "/s", "group": "#a"}, False, "'#a' is not a legal name of a group"),
        ({"path": "/s", "group": "g"}, True, "option txnAppId: it is missing; give the query a name"),
        ({"path": "/s", "group": "g", "txnAppId": "a"}, False, "belong together; give both or none"),
        ({"path": "/s", "group": "g", "txnAppId": "a", "txnVersion": "1"}, True, "has no meaning in a stream"),
        ({"path": "/s", "group": "g", "txnAppId": "a", "txnVersion": "x"}, False, "'x' is not a number"),
        ({"path": "/s", "group": "g", "topic": "a"}, False, "a sink has no such option"),
    ],
)
def test_invalid_options_are_refused(said: dict[str, str], stream: bool, match: str) -> None:
    with pytest.raises(WrongOption, match=match):
        write_options(said, stream=stream)


def test_columns_that_a_spool_has_no_place_for_are_refused() -> None:
    assert not check_written([("payload", "string"), ("type", "smallint")])
    assert check_written([("payload", "binary"), ("group", "string")])

    with pytest.raises(SparkError, match="the column payload is missing; select payload"):
        check_written([("value", "string")])
    with pytest.raises(SparkError, match="messages have no column offset"):
        check_written([("payload", "binary"), ("offset", "bigint")])
    with pytest.raises(SparkError, match="the column payload is int"):
        check_written([("payload", "int")])
    with pytest.raises(SparkError, match="the column group is int"):
        check_written([("payload", "string"), ("group", "int")])


def test_without_a_directory_rows_are_staged_privately_under_a_name_that_cannot_be_guessed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hopring.spark.sink.staging.gettempdir", lambda: str(tmp_path))
    first, second = staging_directory(None, "app"), staging_directory(None, "app")
    old = staging_directory(None, "app")
    old.mkdir()
    os.utime(old, (0, 0))
    (tmp_path / "of another program").mkdir()
    os.utime(tmp_path / "of another program", (0, 0))

    staged = stage([batch(bytes(INLINE_BYTES_MAX + 1))], first)

    assert first != second
    assert first.parent == tmp_path
    assert (first.stat().st_mode & 0o777, Path(staged.file).parent) == (0o700, first)
    clear(first)
    assert [path.name for path in tmp_path.iterdir()] == ["of another program"]


def test_a_directory_that_is_not_ours_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link, writable = staging_directory(tmp_path / "g", "a"), staging_directory(tmp_path / "g", "b")
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "elsewhere")
    writable.mkdir(parents=True)
    writable.chmod(0o777)

    for place in (link, writable):
        with pytest.raises(SparkError, match="others can write to it; run the driver"):
            stage([batch(bytes(INLINE_BYTES_MAX + 1))], place)
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("app", ["..", ".", "../../x", "/etc", "a/b", "x.new", "\x00", ""])
def test_no_name_of_an_application_leads_out_of_the_directory(tmp_path: Path, app: str) -> None:
    place = staging_directory(tmp_path / "g", app)

    assert place.resolve().parent.parent == tmp_path / "g" / "staging"
    kept = keep(tmp_path / "g", AppendMark(app, 3), [stage([batch(b"one")], place)])
    assert Path(kept.file).resolve().parent.parent == tmp_path / "g" / "outbox"
