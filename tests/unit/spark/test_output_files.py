"""The directory of a run, on this machine and in a file system of pyarrow: the same operations and results."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.unit.spark.spooling import fill

from hopring.cli.main import cli
from hopring.spark.errors import ForeignInput

pytest.importorskip("pyspark", reason="needs Spark: make spark")

from pyarrow import fs

from hopring.spark.pipeline import swapping
from hopring.spark.pipeline.arrow_files import ArrowFiles
from hopring.spark.pipeline.files import LocalFiles, OutputFiles, is_elsewhere, output_files
from hopring.spark.pipeline.store import Store

COPY = fs.copy_files


class ObjectStore:
    """A file system of pyarrow that cannot rename directories."""

    def __init__(self, below: Any) -> None:
        self.below = below
        self.refused = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.below, name)

    def move(self, one: str, other: str) -> None:
        if self.below.get_file_info(one).type == fs.FileType.Directory:
            self.refused += 1
            raise NotImplementedError("no directories here")
        self.below.move(one, other)


def arrow(place: Path) -> ArrowFiles:
    return ArrowFiles("viewfs://here/out", fs.SubTreeFileSystem(str(place), fs.LocalFileSystem()), "out")


def local(place: Path) -> LocalFiles:
    return LocalFiles(place / "out")


KINDS = {"local": local, "arrow": arrow}


@pytest.fixture(params=list(KINDS))
def files(request: pytest.FixtureRequest, tmp_path: Path) -> OutputFiles:
    return KINDS[request.param](tmp_path)


def test_files_and_directories_are_made_renamed_and_removed(files: OutputFiles, tmp_path: Path) -> None:
    assert files.names_in("") == []
    assert not files.is_directory("")
    files.make_directory("a/b")
    files.write("a/b/one", b"1")
    files.write("a/two", b"2")

    assert files.names_in("a") == ["b", "two"]
    assert [files.is_directory(name) for name in ("a", "a/b", "a/two", "a/no")] == [True, True, False, False]
    assert [files.is_there(name) for name in ("a", "a/two", "a/no")] == [True, True, False]
    assert files.read("a/b/one") == b"1"
    with pytest.raises(FileNotFoundError):
        files.read("a/no")

    files.rename("a/b/one", "a/two")
    files.rename("a/b", "c")
    assert (files.read("a/two"), files.names_in("a"), files.names_in("c")) == (b"1", ["two"], [])
    for name in ("a", "c", "no"):
        files.remove(name)
    assert files.names_in("") == []
    assert files.uri("a").endswith("/out/a")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_local_directory_is_sent_and_fetched_as_a_whole(files: OutputFiles, tmp_path: Path) -> None:
    (tmp_path / "sent" / "inner").mkdir(parents=True)
    (tmp_path / "sent" / "inner" / "x").write_bytes(b"x")
    (tmp_path / "sent" / "y").write_bytes(b"y")
    files.send(tmp_path / "sent", "made/here")

    with files.fetched(["made", "not/there"]) as place:
        assert (place / "made" / "here" / "inner" / "x").read_bytes() == b"x"
        assert (place / "made" / "here" / "y").read_bytes() == b"y"
        assert not (place / "not").exists()


def test_a_table_is_replaced_and_a_failed_replacement_is_made_good(files: OutputFiles) -> None:
    store = Store(files)
    assert not store.open()

    def make(name: str) -> None:
        with store.making("gold", "links") as place:
            files.make_directory(place)
            files.write(f"{place}/{name}", b"")

    make("one")
    make("two")
    assert files.names_in("gold/links") == ["two"]
    # A process was killed between taking the old one away and putting the new one into its place.
    files.make_directory(".new")
    files.rename("gold/links", ".new/gold%2Flinks-old")
    swapping.recover(files, ".new")
    assert files.names_in("gold/links") == ["two"]
    store.write("audit.json", "{}")
    store.write("audit.json", '{"holds":true}')
    assert (store.read("audit.json"), store.read("report.html")) == ('{"holds":true}', None)
    store.close()

    assert Store(files).open()
    assert files.names_in("") == [".hopring-pipeline", "audit.json", "gold"]
    files.write("thesis.tex", b"")
    with pytest.raises(ForeignInput, match=r"contains thesis\.tex, which is not from a run of the pipeline"):
        Store(files).open()


def test_where_directories_cannot_be_renamed_their_files_are_copied(tmp_path: Path) -> None:
    system = ObjectStore(fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()))
    files = ArrowFiles("s3://here/out", system, "out")
    files.make_directory("new/run=x")
    files.write("new/run=x/part", b"rows")

    # The copy needs a file system of pyarrow itself.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fs, "copy_files", lambda one, other, *_: COPY(one, other, system.below, system.below))
        files.rename("new", "table")

    assert system.refused == 1
    assert (files.read("table/run=x/part"), files.is_there("new")) == (b"rows", False)


def test_a_directory_that_nobody_reaches_is_refused_in_one_line(tmp_path: Path) -> None:
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(ForeignInput, match=r"^nfs://x/y: pyarrow has no access to it \(.*\); run it where"):
        output_files("nfs://x/y", remote)
    with pytest.raises(ForeignInput, match="s3://x/y: not a local directory; give one that all workers"):
        output_files("s3://x/y")
    with pytest.raises(ForeignInput, match="not a local directory; give a local one for a stream"):
        assert Store(arrow(tmp_path)).out
    assert [is_elsewhere(one) for one in ("out", "/a:/b", "file:///a", "s3:/b", "viewfs://c/d")] == [
        *(False, False, False),
        *(True, True),
    ]
    assert output_files(f"file://{tmp_path}").uri("x") == f"file://{tmp_path}/x"


def test_a_stream_into_another_file_system_is_refused(tmp_path: Path) -> None:
    fill(tmp_path / "eu", "trades", 3)
    words = ["pipeline", "run", "--spool", str(tmp_path / "eu"), "--out", "hdfs://x/y", "--stream"]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 2
    assert "--stream keeps its tables in a local directory: give one for --out" in done.output
