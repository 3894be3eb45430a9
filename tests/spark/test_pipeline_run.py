"""`hop pipeline run` over the files of real daemons and spoolers: its figures match the messages sent."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.spark.histories import jobs_of
from tests.spark.two_sites import AGAIN, APART_EU, APART_US, TOGETHER, Story, tell

from hopring.check.trace import Counters, MessageDelivered, MessageSent, ViewInstalled
from hopring.check.trace_files import read_json_lines
from hopring.cli.main import cli
from hopring.spark.schema import GOLD

parquet = pytest.importorskip("pyarrow.parquet", reason="needs Spark: make spark")
pytestmark = [pytest.mark.spark, pytest.mark.slow]

SENT = TOGETHER + APART_EU + APART_US + AGAIN
SHARED = TOGETHER + AGAIN
JOBS_MAX = 40
SETTINGS = ("spark.sql.adaptive.enabled", "spark.sql.codegen.wholeStage", "spark.sql.shuffle.partitions")


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    return tell(tmp_path_factory.mktemp("story"))


@pytest.fixture
def kept(users: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session that users get, which the command does not stop."""
    monkeypatch.setattr(users, "stop", lambda: None)
    monkeypatch.setattr("hopring.spark.session", lambda *_: users)


def run(story: Story, out: Path, *more: str) -> Result:
    spools = [word for site in ("eu", "us") for word in ("--spool", str(story.spool(site)))]
    arguments = [*spools, "--trace", str(story.trace), "--out", str(out), *more]
    return CliRunner().invoke(cli, ["pipeline", "run", *arguments])


def rows(out: Path, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = parquet.read_table(out / table).to_pylist()
    return found


def check_spools(out: Path) -> None:
    messages = rows(out, "silver/messages")
    assert len({one["message"] for one in messages}) == len(messages) == SENT
    held = [tuple(one["spools"]) for one in messages]
    assert {spools: held.count(spools) for spools in set(held)} == {
        ("eu", "us"): SHARED,
        ("eu",): APART_EU,
        ("us",): APART_US,
    }
    gaps = [(one["spool"], one["kind"], one["messages"], one["others"]) for one in rows(out, "silver/gaps")]
    assert sorted(gaps) == [("eu", "views", APART_US, ["us"]), ("us", "views", APART_EU, ["eu"])]
    apart = {one["view"].rpartition("-")[0] for one in rows(out, "silver/gaps")}
    assert apart == {one["view"] for one in messages if len(one["spools"]) == 1}


def check_trace(story: Story, out: Path) -> None:
    history = []
    for file in sorted(story.trace.iterdir()):
        with file.open("rb") as lines:
            history += read_json_lines(lines)
    summary = {one["name"]: one["value"] for one in rows(out, "gold/summary")}
    sends, deliveries = (
        sum(isinstance(one, kind) for one in history) for kind in (MessageSent, MessageDelivered)
    )
    assert summary == {
        **{"messages sent": sends, "messages delivered": deliveries, "daemons": 3, "sites": 2, "spools": 2},
        "bytes sent": sum(one.size for one in history if isinstance(one, MessageSent)),
        "views": len({one.view for one in history if isinstance(one, ViewInstalled)}),
        "records": summary["records"],
        **{"messages spooled": SENT, "duplicates removed": SHARED, "gaps": 2, "gaps unexplained": 0},
    }
    for column, counted in (("sent", sends), ("delivered", deliveries)):
        assert sum(one[column] for one in rows(out, "gold/throughput")) == counted
    latency = rows(out, "gold/latency")
    for group in ("", "trades"):
        ways = {(one["from_site"], one["to_site"]) for one in latency if one["group"] == group}
        assert ways == {("eu", "eu"), ("eu", "us"), ("us", "eu"), ("us", "us")}
    assert sum(one["messages"] for one in latency if one["group"] == "") == deliveries
    assert sum(one["messages"] for one in rows(out, "gold/latency_histogram")) == deliveries
    assert sum(one["negative"] for one in latency) == 0  # All daemons are on one machine.
    assert all(0 < one["p50_us"] <= one["p99_us"] <= one["max_us"] < 60e6 for one in latency)
    last = {(one.process.daemon, one.link): one for one in history if isinstance(one, Counters)}
    found = {(one["daemon"], one["link"]): (one["sent"], one["received"]) for one in rows(out, "gold/links")}
    assert found == {key: (one.sent, one.received) for key, one in last.items()}
    assert {daemon for daemon, _ in found} == {"eu1", "us1"}  # The representatives.


def test_the_figures_match_the_messages_sent(story: Story, kept: None, spark: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    before = jobs_of(spark), {name: spark.conf.get(name) for name in SETTINGS}

    done = run(story, out, "--config", str(story.directory / "cluster" / "hop.toml"))

    page = out / "report.html"
    assert done.output == f"one history: all 26 properties hold\ntables in {out}, report in {page}\n"
    assert "</html>" in page.read_text()
    assert done.exit_code == 0
    assert jobs_of(spark) - before[0] <= JOBS_MAX
    assert {name: spark.conf.get(name) for name in SETTINGS} == before[1]
    assert json.loads((out / "audit.json").read_text())["holds"]
    for table, columns in GOLD.items():
        assert parquet.read_table(out / "gold" / table).column_names == list(columns)
    check_spools(out)
    check_trace(story, out)
    stays = [(one["session"], one["members"]) for one in rows(out, "gold/group_views")]
    assert ("eu", ["#spooler#eu1"]) in stays
    assert ("us", ["#spooler#eu1", "#spooler#us1"]) in stays


@pytest.mark.long
def test_a_broken_promise_is_exit_code_1_with_a_witness(story: Story, kept: None, tmp_path: Path) -> None:
    """A trace in which us1 does not deliver a message that it held together with the others."""
    trace = tmp_path / "trace"
    trace.mkdir()
    for file in story.trace.iterdir():
        (trace / file.name).write_bytes(file.read_bytes())
    lines = [json.loads(line) for line in (trace / "us1.jsonl").read_text().splitlines()]
    lost = next(one for one in lines if one["kind"] == "deliver" and one["sender"].startswith("eu2"))
    lines.remove(lost)
    for position, line in enumerate(lines):
        line["position"] = position
    (trace / "us1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    arguments = ["--trace", str(trace), "--out", str(tmp_path / "out"), "--sessions"]
    done = CliRunner().invoke(cli, ["pipeline", "run", *arguments])

    assert done.exit_code == 1
    assert "broken: 2." in done.output
    broken = json.loads((tmp_path / "out" / "audit.json").read_text())["broken"]
    assert any("us1" in one["witness"] for one in broken)
    violations = rows(tmp_path / "out", "gold/violations")
    assert {one["property"] for one in violations} == {one["property"] for one in broken}
    assert [one["witness"] for one in violations if one["rank"] == 1] == [one["witness"] for one in broken]
    assert all(json.loads(one["facts"]) for one in violations)
    assert not rows(tmp_path / "out", "silver/messages")
