"""`hop pipeline serve`: a server that runs are made at, and that leaves nothing behind."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.spark.growing import Growing
from tests.spark.server_process import Server, command, environment
from tests.spark.two_sites import Story, tell
from tests.support.waiting import until
from tests.unit.spark.spooling import fill

parquet = pytest.importorskip("pyarrow.parquet", reason="needs Spark: make spark")
pytest.importorskip("grpc", reason="needs Spark Connect: make spark")

from tests.manual.compare_runs import compare  # noqa: E402  Needs pyarrow.

pytestmark = [pytest.mark.spark, pytest.mark.slow]

RUN_SECONDS_MAX = 600.0


COUNT = """
import sys
from hopring.spark import register, session
spark = session("count", remote=sys.argv[1])
register(spark)
print(spark.read.format("hopring").load(sys.argv[2]).count())
spark.stop()
"""


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.end(signal.SIGKILL)


def run(out: Path, *words: str) -> None:
    done = subprocess.run(
        command("pipeline", "run", "--out", str(out), *words),
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_SECONDS_MAX,
    )
    assert done.returncode == 0, done.stderr


def test_jobs_and_streams_are_run_by_a_server_that_ends_with_its_java(server: Server, tmp_path: Path) -> None:
    assert server.url == f"sc://localhost:{server.port}"
    java = server.java()
    taken = subprocess.run(
        command("pipeline", "serve", "--port", str(server.port)), capture_output=True, text=True, check=False
    )
    assert taken.returncode == 1
    assert taken.stderr.splitlines()[1:] == [
        f"hop: port {server.port} of 127.0.0.1: Address already in use;"
        " end the other server, or choose another with --port"
    ]
    fill(tmp_path, "trades", 40)

    counted = [sys.executable, "-P", "-c", COUNT, server.url, str(tmp_path)]
    assert subprocess.check_output(counted, env=environment(), text=True) == "40\n"
    growing = Growing(tmp_path / "stream")
    for step in range(2):
        growing.grow(step, 2)
    streamed = [sys.executable, "-P", "-m", "tests.spark.growing", str(growing.directory), "60", server.url]
    assert subprocess.check_output(streamed, env=environment(), text=True) == "begins\nthrough\n"
    messages = parquet.read_table(growing.out / "silver" / "messages").to_pylist()
    assert len(messages) == 80 + 12  # Of the Unreliable ones each spool has three in each step.
    assert '"running":false' in (growing.out / "stream.json").read_text()

    code, said = server.end(signal.SIGTERM)
    assert code == 143
    assert f"hop pipeline run --remote {server.url} --spool" in said
    until(lambda: not Path(f"/proc/{java}").exists())


@pytest.mark.long
def test_runs_at_a_server_make_the_same_tables_and_java_ends_with_a_killed_server(
    server: Server, tmp_path: Path
) -> None:
    story: Story = tell(tmp_path / "story")
    words = ["--trace", str(story.trace), "--no-report"]
    words += [word for site in ("eu", "us") for word in ("--spool", str(story.spool(site)))]

    run(tmp_path / "here", *words)
    for again in ("there", "again"):
        run(tmp_path / again, *words, "--remote", server.url)

    for again in ("there", "again"):
        assert compare(tmp_path / "here", tmp_path / again) == []
    assert parquet.read_table(tmp_path / "again" / "silver" / "messages").num_rows > 0
    java = server.java()
    server.end(signal.SIGKILL)
    until(lambda: not Path(f"/proc/{java}").exists())
