"""Parts of the pipeline that need no Spark: inputs, the output directory, refused input."""

import errno
import json
import os
import signal
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.unit.spark.spooling import fill

from hopring.cli.main import cli

pytest.importorskip("pyspark", reason="needs Spark: make spark")

from hopring.config import local_config
from hopring.groups.names import GroupViewId
from hopring.ids import DaemonId, Incarnation, ViewId
from hopring.spark.audit import AuditFinding, AuditReport
from hopring.spark.audit.reading import as_parquet
from hopring.spark.errors import ForeignInput, SparkError
from hopring.spark.pipeline.ingest import interrupted
from hopring.spark.pipeline.reconcile import body_columns
from hopring.spark.pipeline.store import (
    PipelineOptions,
    SpoolRoot,
    Store,
    named_spools,
    on_disk,
    sites_of,
)
from hopring.spark.pipeline.swapping import exchanged
from hopring.spool.record import RecordedGap, RecordedMember, RecordedView, encode_body


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["pipeline", "run", *arguments])
    return done.exit_code, done.output


def test_a_spool_is_called_by_its_directory_or_by_a_name(tmp_path: Path) -> None:
    for place in ("eu", "a=b", "other/eu"):
        fill(tmp_path / place, "trades", 3)

    assert named_spools([str(tmp_path / "eu"), f"x={tmp_path / 'a=b'}"]) == (
        SpoolRoot("eu", str(tmp_path / "eu")),
        SpoolRoot("x", str(tmp_path / "a=b")),
    )
    with pytest.raises(ForeignInput, match=r"two spools have the name eu: .*; name them: --spool NAME=DIR"):
        named_spools([str(tmp_path / "eu"), str(tmp_path / "other" / "eu")])
    with pytest.raises(ForeignInput, match="'a=b' cannot be the name of a spool; name it"):
        named_spools([str(tmp_path / "a=b")])


def test_a_directory_that_is_not_a_spool_is_refused_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(ForeignInput, match="gone: no such directory; give the directory that hop spool run"):
        named_spools([str(tmp_path / "gone")])
    with pytest.raises(ForeignInput, match="has no spool; give the directory that hop spool run"):
        named_spools([f"x={tmp_path}"])


def test_sites_are_those_of_the_configuration() -> None:
    assert sites_of(local_config({"eu": 2, "us": 1}, {("eu", "us"): 10}, 4000)) == {
        "eu1": "eu",
        "eu2": "eu",
        "us1": "us",
    }


def test_a_table_gets_its_name_when_it_is_complete(tmp_path: Path) -> None:
    store = Store(tmp_path / "out")
    assert not store.open()

    def make(*files: str) -> None:
        with store.making("gold", "links") as place:
            if files:
                store.files.make_directory(place)
            for name in files:
                store.files.write(f"{place}/{name}", b"")

    make("one")
    with pytest.raises(FileNotFoundError):
        make()
    assert [path.name for path in store.place("gold", "links").iterdir()] == ["one"]
    make("two")
    assert [path.name for path in store.place("gold", "links").iterdir()] == ["two"]
    store.write("audit.json", "{}")
    store.close()

    assert Store(tmp_path / "out").open()
    assert sorted(path.name for path in store.out.iterdir()) == [".hopring-pipeline", "audit.json", "gold"]


@pytest.mark.slow
def test_a_table_that_is_replaced_is_there_at_every_moment(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    if not exchanged(tmp_path / "one", tmp_path / "other"):
        pytest.skip("this file system cannot swap two names")
    store = Store(tmp_path / "out")
    store.open()

    def replace(number: int) -> None:
        with store.making("gold", "links") as place:
            store.files.make_directory(place)
            store.files.write(f"{place}/{number}", b"")

    replace(0)
    table, ended, looks, absent = str(store.place("gold", "links")), threading.Event(), [0], [0]

    def look() -> None:
        while not ended.is_set():
            looks[0] += 1
            absent[0] += not os.access(table, os.F_OK)

    reader = threading.Thread(target=look)
    reader.start()
    for number in range(1, 100):
        replace(number)
    ended.set()
    reader.join()

    assert looks[0] > 100
    assert absent[0] == 0
    assert os.listdir(table) == ["99"]


def test_foreign_files_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(
        ForeignInput, match=r"contains thesis.tex, which is not from a run of the pipeline; give an empty"
    ):
        Store(tmp_path).open()
    with pytest.raises(ForeignInput, match="not a directory; give another for --out"):
        Store(tmp_path / "thesis.tex").open()
    with pytest.raises(ForeignInput, match="s3:/bucket/out: not a local directory"):
        Store(Path("s3://bucket/out")).open()


def test_an_error_of_the_disk_is_one_line(tmp_path: Path) -> None:
    with (
        pytest.raises(SparkError, match="out: No space left on device; free some space"),
        on_disk(tmp_path / "out"),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(SparkError, match="x: Permission denied; check its permissions"), on_disk(tmp_path):
        raise OSError(errno.EACCES, "Permission denied", "x")


def test_an_incomplete_last_line_is_ignored(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow: make arrow")
    row = {"schema": 1, "kind": "recover", "process": "a#1/0", "daemon": "a", "position": 0, "time_us": 7}
    (tmp_path / "a.jsonl").write_text(json.dumps(row) + '\n{"schema":1,"ki')

    with as_parquet(tmp_path, tmp_path) as files:
        assert files is not None
        assert files.parent == tmp_path
        assert parquet.read_table(files / "a.parquet")["time_us"].to_pylist() == [7]
    (tmp_path / "a.jsonl").write_text('{"schema":1,"ki\n')
    with pytest.raises(ForeignInput, match="line 1: not a row of a trace"), as_parquet(tmp_path):
        pass


def test_bodies_become_columns() -> None:
    daemons = ViewId(3, DaemonId(1), Incarnation(2**64 - 1))
    members = (RecordedMember("eu1", "anna", 7, 1), RecordedMember("us1", "bert", 8, 2))
    view = RecordedView(GroupViewId(daemons, (), 2), members, (0,), "join", None, ())

    assert body_columns("view", encode_body(view)) == {
        "view": "0000000000000003.0001.ffffffffffffffff-00000002",
        "members": ["#anna#eu1", "#bert#us1"],
        "cause": "join",
    }
    assert body_columns("gap", encode_body(RecordedGap("away", 5, 9))) == {
        **{"cause": "away", "since": 5, "until": 9, "messages": None}
    }


def test_a_broken_property_ends_the_command_with_1_and_the_witness(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path / "eu", "trades", 3)
    wishes = []

    def found(wish: PipelineOptions, *_: object) -> AuditReport:
        wishes.append(wish)
        return AuditReport(
            ("",), (AuditFinding("", "2.5 no duplication", 1, "a delivered b:1 twice"),), {"": ("2.5",)}
        )

    monkeypatch.setattr("hopring.cli.pipeline.command._run", found)

    arguments = ("--spool", str(tmp_path / "eu"), "--out", str(tmp_path / "out"), "--no-report")
    code, said = run(*arguments)

    witness = "broken: 2.5 no duplication\n    a delivered b:1 twice"
    assert (code, said) == (
        1,
        f"{witness}\none history: 1 of 1 verdicts are broken\ntables in {tmp_path / 'out'}\n",
    )
    assert wishes[0].ends.many_sessions
    assert not wishes[0].report


def test_the_command_refuses_invalid_options_before_anything_starts(tmp_path: Path) -> None:
    out = ("--out", str(tmp_path / "out"))
    fill(tmp_path / "eu", "trades", 3)
    spool = ("--spool", str(tmp_path / "eu"))

    assert run(*out) == (2, run(*out)[1])
    assert "give --spool, --trace or both" in run(*out)[1]
    assert "--until-idle goes with --stream" in run(*out, *spool, "--until-idle")[1]
    elsewhere = ("--out", "hdfs://here/out", *spool)
    assert "--stream keeps its tables in a local directory" in run(*elsewhere, "--stream")[1]
    assert "'ten' is not a duration" in run(*out, *spool, "--stream", "--late", "ten")[1]
    assert run(*out, "--trace", str(tmp_path / "gone"))[1].endswith(
        "gone: not there; give a directory of traces, or one file\n"
    )
    assert "holds no trace" in run(*out, "--trace", str(tmp_path / "eu"))[1]
    code, said = run(*out, *spool, "--config", str(tmp_path / "no.toml"))
    assert (code, "no.toml" in said) == (7, True)
    code, said = run(*out, *spool, "--master", "nonsense")
    address = "write it as local[2], spark://HOST:7077, k8s://.. or yarn"
    assert (code, said) == (1, f"hop: 'nonsense' is not the address of a cluster; {address}\n")


def test_an_interrupt_ends_a_stream_and_nothing_else() -> None:
    before = signal.getsignal(signal.SIGINT)
    with interrupted() as ended:
        assert not ended.is_set()
        os.kill(os.getpid(), signal.SIGINT)
        assert ended.wait(60.0)
    assert signal.getsignal(signal.SIGINT) is before
