"""Runs into another file system make the same tables: `viewfs://` over a local directory.

Java reaches that directory through Hadoop. Behind Spark Connect pyarrow has to reach it, which knows no
`viewfs` without Hadoop's own library: there it gets the local directory below.
"""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.spark.growing import Growing
from tests.spark.server_process import Server, environment

pytest.importorskip("pyspark", reason="needs Spark: make spark")

from tests.manual.compare_runs import compare

from hopring.spark.errors import SparkError, readable
from hopring.spark.pipeline import Store, output_files
from hopring.spark.pipeline import run as run_pipeline

pytestmark = [pytest.mark.spark, pytest.mark.slow]

MOUNT = "fs.viewfs.mounttable.{}.link./out"


def grown(root: Path) -> Growing:
    growing = Growing(root)
    for step in range(2):
        growing.grow(step, 2)
    return growing


def run(spark: Any, growing: Growing, store: Store) -> bool:
    """Runs the pipeline; returns whether the directory had an earlier run."""
    with readable(store.shown):
        earlier = store.open()
    run_pipeline(spark, growing.options(stream=False, until_idle=False), store)
    return earlier


@pytest.fixture
def mounted(users: Any, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[str, Path]]:
    """A directory of `viewfs`, and the local directory below it."""
    below = tmp_path / "below"
    below.mkdir()
    name = f"here{request.node.name.count('_')}"  # Hadoop remembers each of these until Java ends.
    users.conf.set(MOUNT.format(name), f"file://{below}")
    yield f"viewfs://{name}/out", below
    users.conf.unset(MOUNT.format(name))


def test_files_and_tables_are_written_read_renamed_and_removed_there(
    users: Any, mounted: tuple[str, Path]
) -> None:
    where, below = mounted
    files = output_files(where, users)
    files.make_directory("gold/links")
    files.write("gold/one", b"first")
    files.write("gold/other", b"second")
    files.rename("gold/other", "gold/one")
    users.range(3).write.parquet(files.uri("gold/links/part"))

    assert files.read("gold/one") == (below / "gold" / "one").read_bytes() == b"second"
    assert files.names_in("gold") == ["links", "one"]
    assert files.is_directory("gold/links")
    assert users.read.parquet(files.uri("gold/links/part")).count() == 3
    with files.fetched(["gold/one", "gold/links"]) as fetched:
        assert (fetched / "gold" / "one").read_bytes() == b"second"
        assert list((fetched / "gold" / "links" / "part").glob("*.parquet"))
    files.rename("gold/links", "gold/lines")
    files.remove("gold/one")
    assert sorted(path.name for path in (below / "gold").iterdir() if path.suffix != ".crc") == ["lines"]
    with pytest.raises(FileNotFoundError):
        files.read("gold/one")


@pytest.mark.long
def test_a_run_into_viewfs_makes_the_same_tables_and_replaces_them(
    users: Any, mounted: tuple[str, Path], tmp_path: Path
) -> None:
    where, below = mounted
    growing = grown(tmp_path)
    run(users, growing, Store(tmp_path / "local"))

    there = Store(output_files(where, users))
    assert not run(users, growing, there)
    assert run(users, growing, there)

    assert compare(tmp_path / "local", below) == []
    names = [
        {path.name for path in out.iterdir() if path.suffix != ".crc"} for out in (tmp_path / "local", below)
    ]
    assert names[0] == names[1]
    # The report names the moment of the tables only.
    assert (below / "report.html").read_bytes() == (tmp_path / "local" / "report.html").read_bytes()


def test_what_is_not_supported_is_said_in_one_line(
    users: Any, mounted: tuple[str, Path], tmp_path: Path
) -> None:
    with pytest.raises(
        SparkError, match=r"^s9://x/out: Spark has no file system for it here; start Spark with"
    ):
        output_files("s9://x/out", users)
    where, below = mounted
    (below / "thesis.tex").touch()
    with pytest.raises(
        SparkError, match=r"^viewfs://here\d+/out: contains thesis\.tex, which is not from a run"
    ):
        Store(output_files(where, users)).open()
    (below / "thesis.tex").unlink()
    growing = grown(tmp_path)
    store = Store(output_files(where, users))
    store.open()
    with pytest.raises(
        SparkError, match=r"^viewfs://here\d+/out: not a local directory; give a local one for a stream"
    ):
        run_pipeline(users, growing.options(), store)


REMOTE = """
import sys
from pathlib import Path
from pyarrow import fs
from tests.spark.growing import Growing
from hopring.spark import session
from hopring.spark.errors import SparkError
from hopring.spark.pipeline import Store, output_files, run
from hopring.spark.pipeline.arrow_files import ArrowFiles
spark = session("elsewhere", remote=sys.argv[1])
spark.conf.set(sys.argv[2], f"file://{sys.argv[4]}")
store = Store(ArrowFiles("viewfs://there/out", fs.LocalFileSystem(), sys.argv[4]))
for turn in range(2):
    print(store.open())
    run(spark, Growing(Path(sys.argv[3])).options(stream=False, until_idle=False), store)
try:
    output_files("viewfs://there/out", spark)
except SparkError as error:
    print(error)
spark.stop()
"""


@pytest.mark.long
def test_behind_spark_connect_the_tables_are_the_same(users: Any, tmp_path: Path) -> None:
    growing, below = grown(tmp_path), tmp_path / "below"
    below.mkdir()
    server = Server()
    try:
        words = [server.url, MOUNT.format("there"), str(tmp_path), str(below)]
        command = [sys.executable, "-P", "-c", REMOTE, *words]
        done = subprocess.run(
            command, env=environment(), capture_output=True, text=True, check=False, timeout=600
        )
    finally:
        server.end(signal.SIGKILL)
    assert done.returncode == 0, done.stderr
    first, second, refused = done.stdout.splitlines()
    assert (first, second) == ("False", "True")
    assert refused.startswith("viewfs://there/out: pyarrow has no access to it (")

    run(users, growing, Store(tmp_path / "local"))
    assert compare(tmp_path / "local", below) == []
