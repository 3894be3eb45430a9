"""Tables and the archive have the same content as the records."""

import os
import signal
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from tests.unit.spool.drawn_runs import some_runs
from tests.unit.spool.spool_samples import FailingDisk, messages

from hopring.services import Service
from hopring.spool.archive import archive
from hopring.spool.arrow import ArrowMissing, read_batches, run_of_array
from hopring.spool.errors import AppendFailed, SpoolDamaged
from hopring.spool.files import archive_path, log_path
from hopring.spool.reading import plan, read
from hopring.spool.record import RecordHeader, RecordKind, RecordRun, SpoolRecord, run_of
from hopring.spool.writer import SpoolOptions, SpoolWriter
from hopring.wire.envelope import encode_envelope

pa = pytest.importorskip("pyarrow", reason="needs pyarrow: make arrow")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


def row_of(record: SpoolRecord, group: str) -> dict[str, object]:
    its = record.header
    view, place = its.view, its.place
    return {
        "group": group,
        "offset": record.offset,
        "timestamp": EPOCH + timedelta(microseconds=its.time_us),
        "kind": its.kind.name.lower(),
        "sender": its.sender or None,
        "groups": list(its.groups),
        "service": None if its.service is None else its.service.name.lower(),
        "type": record.type,
        "view": {
            "counter": signed(view.view.counter),
            "representative": view.view.representative,
            "nonce": signed(view.view.nonce),
            "step": view.step,
        },
        "place": {
            "counter": signed(place.view.counter),
            "representative": place.view.representative,
            "nonce": signed(place.view.nonce),
            "lts": signed(place.lts),
            "site": place.site,
        },
        "number": record.number,
        "size": len(record.data),
        "payload": record.data,
        "headers": list(record.headers.items()) or None,
        "key": record.headers.get("key"),
    }


def rows(directory: Path, start: int, end: int, **options: Any) -> list[dict[str, object]]:
    return [
        row
        for portion in plan(directory, start, end, records_max=7)
        for batch in read_batches(portion, **options)
        for row in batch.to_pylist()
    ]


def dated(run: RecordRun, number: int) -> RecordRun:
    """Restricts times: Python's dates end with the year 9999."""
    return replace(run, header=run.header._replace(time_us=number))


@pytest.mark.slow
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(first=some_runs(), second=some_runs())
def test_tables_have_the_values_of_records(
    tmp_path_factory: pytest.TempPathFactory, first: list[RecordRun], second: list[RecordRun]
) -> None:
    root = tmp_path_factory.mktemp("spool")
    with SpoolWriter(root, "g", SpoolOptions(sync_seconds=1000)) as writer:
        for runs in (first, second):
            writer.append([dated(run, number) for number, run in enumerate(runs)])
    end = writer.end

    expected = [row_of(record, "g") for record in read(writer.directory, 0, end)]

    assert rows(writer.directory, 0, end) == expected
    assert rows(writer.directory, 1, end - 1, batch_bytes=1) == expected[1:-1]
    small = [{name: row[name] for name in row if name != "payload"} for row in expected]
    assert rows(writer.directory, 0, end, payload=False) == small


def test_an_array_is_appended_without_a_copy(tmp_path: Path) -> None:
    payloads = pa.array([b"zero", b"one", None, b"", b"four"], pa.binary())
    its = RecordHeader(RecordKind.MESSAGE, 5)

    with SpoolWriter(tmp_path, "g") as writer:
        writer.append([run_of_array(its, payloads.slice(1, 4), [1, 2, 3, 4])])
        writer.append([run_of_array(its, payloads), run_of_array(its, payloads.slice(5))])
        writer.append([run_of_array(its, pa.array([], pa.binary()))])

    records = list(read(writer.directory, 0, writer.end))
    assert [(one.type, one.data) for one in records[:4]] == [(1, b"one"), (2, b""), (3, b""), (4, b"four")]
    assert [one.data for one in records[4:]] == [b"zero", b"one", b"", b"", b"four"]


def finished(root: Path) -> Path:
    with SpoolWriter(root, "g", SpoolOptions(segment_bytes=1)) as writer:
        writer.append(messages(b"one", b"two"))
        writer.append(
            [
                run_of(
                    RecordHeader(RecordKind.MESSAGE, 9, "#a#b", ("g", "h"), Service.SAFE),
                    [b"three"],
                    envelopes=[encode_envelope({"key": "EURUSD", "source": "desk 7"})],
                )
            ]
        )
        writer.append(messages(b"last"))
    return writer.directory


def test_finished_segments_are_archived_once_with_the_values_of_records(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow: make arrow")
    directory = finished(tmp_path)

    done = list(archive(directory))

    assert [(one.base, one.end) for one in done] == [(0, 2), (2, 3)]
    whole = parquet.read_table(directory / "archive")
    assert whole.to_pylist() == [row_of(record, "g") for record in read(directory, 0, 3)]
    assert parquet.ParquetFile(done[0].path).metadata.row_group(0).column(0).compression == "ZSTD"
    assert list(archive(directory)) == []


def test_headers_are_a_column_and_the_header_key_is_one_of_its_own(tmp_path: Path) -> None:
    found = rows(finished(tmp_path), 0, 4)

    assert [row["headers"] for row in found] == [
        *(None, None),
        [("key", "EURUSD"), ("source", "desk 7")],
        None,
    ]
    assert [row["key"] for row in found] == [None, None, "EURUSD", None]


def test_a_damaged_segment_is_archived_only_on_request(tmp_path: Path) -> None:
    directory = finished(tmp_path)
    log = log_path(directory, 0)
    whole = bytearray(log.read_bytes())
    whole[-3] ^= 1
    log.write_bytes(whole)

    with pytest.raises(SpoolDamaged, match="records from 0 to 1"):
        list(archive(directory))

    assert not archive_path(directory, 0).exists()
    assert len(list(archive(directory, skip_damaged=True))) == 2


@pytest.mark.parametrize("call", ["open", "sync", "rename"])
def test_an_archive_that_the_disk_refuses_leaves_nothing_and_is_made_later(tmp_path: Path, call: str) -> None:
    directory = finished(tmp_path)
    disk = FailingDisk()
    disk.failing = {call: 0}

    with pytest.raises(AppendFailed):
        list(archive(directory, disk=disk))

    assert list((directory / "archive").iterdir()) == []
    disk.failing = {}
    assert len(list(archive(directory, disk=disk))) == 2


@pytest.mark.slow
@pytest.mark.parametrize("call", ["open", "sync", "rename"])
def test_archiving_that_was_killed_starts_again(tmp_path: Path, call: str) -> None:
    directory = finished(tmp_path)

    class Killing(FailingDisk):
        def _fail(self) -> OSError:
            os.kill(os.getpid(), signal.SIGKILL)
            raise AssertionError("not reached")

    child = os.fork()
    if not child:
        disk = Killing()
        disk.failing = {call: 0}
        list(archive(directory, disk=disk))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL

    assert not archive_path(directory, 0).exists()
    assert len(list(archive(directory))) == 2
    assert sorted(path.suffix for path in (directory / "archive").iterdir()) == [".parquet", ".parquet"]


def test_without_arrow_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = finished(tmp_path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    with pytest.raises(ArrowMissing, match=r"pip install 'hopring\[arrow\]'"):
        list(archive(directory))
