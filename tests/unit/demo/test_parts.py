"""The pure parts of the demonstration: figures, verdict, and output."""

import io
from dataclasses import replace

import pytest
from rich.console import Console
from tests.unit.cli.demo_play import FACTS, Shown, client, played, sent, text_of

from hopring.check import trace
from hopring.check.properties.property import broken, holds
from hopring.demo import summary
from hopring.demo.figures import ClientSummary, DemoFigures, JudgedHistory, ViewChangeTimes, changes
from hopring.demo.scenario import (
    AGAIN,
    APART,
    MERGING,
    QUIET,
    SPLITTING,
    TOGETHER,
    side_of,
    sides_in,
    site_of,
)
from hopring.demo.screen import DemoScreen
from hopring.demo.summary import INSTALL, LEFT_OUT, judge, lacking
from hopring.services import SAFE

VIEW = trace.ViewName(1, 0, 1)
GROUP_VIEW = trace.GroupViewName(VIEW, (), 1)
SECOND = 1_000_000
MARKS = [
    (TOGETHER, 0),
    (SPLITTING, 2 * SECOND),
    (APART, 3 * SECOND),
    (MERGING, 5 * SECOND),
    (AGAIN, 6 * SECOND),
]
MARKS += [(QUIET, 8 * SECOND)]
DAEMONS = ("ap1", "eu1", "eu2", "us1")


def got(daemon: str, message: trace.ClientSent, at_us: int, lts: int = 0) -> trace.ClientDelivered:
    ord = trace.Ord(lts or at_us, 0, VIEW)
    return trace.ClientDelivered(client(daemon), at_us, ("trades",), message.message, message.service, ord)


def connected() -> list[trace.Event]:
    return [trace.ClientConnected(client(daemon), 0, "player", f"#player#{daemon}") for daemon in DAEMONS]


def test_daemons_belong_to_sites_and_sides() -> None:
    assert [site_of(name) for name in ("eu1", "ap12")] == ["eu", "ap"]
    assert (side_of("eu2"), side_of("ap1")) == (("eu",), ("us", "ap"))
    assert (sides_in(TOGETHER), sides_in(APART)) == ((("eu", "us", "ap"),), (("eu",), ("us", "ap")))


def test_messages_belong_to_the_phase_and_side_they_were_sent_in() -> None:
    whole, safe = sent("eu1", 1, SECOND), sent("us1", 1, SECOND, SAFE)
    apart, lone = sent("eu1", 2, 4 * SECOND), sent("ap1", 1, 4 * SECOND)
    events: list[trace.Event] = [*connected(), whole, safe, apart, lone]
    events += [got(daemon, whole, SECOND + 40_000) for daemon in DAEMONS]
    events += [got(daemon, safe, SECOND + 90_000, 7) for daemon in DAEMONS]
    events += [got("eu1", apart, 4 * SECOND + 10_000), got("us1", lone, 4 * SECOND + 20_000)]
    figures = DemoFigures(events, MARKS)

    flows = {(one.phase, one.sites): (one.sent, one.delivered, one.sent_per_second) for one in figures.flows()}
    assert flows[TOGETHER, ("eu", "us", "ap")] == (2, 8, 1.0)
    assert flows[APART, ("eu",)] == (1, 1, 0.5)
    latencies = {(one.service, one.phase, one.sites): one.mean_ms for one in figures.latencies()}
    assert latencies["agreed", TOGETHER, ("eu", "us", "ap")] == 40.0
    assert latencies["safe", TOGETHER, ("eu", "us", "ap")] == 90.0
    assert latencies["agreed", APART, ("eu",)] == 10.0
    reached = {(one.phase, one.sites): one for one in figures.reached()}
    assert reached[TOGETHER, ("eu", "us", "ap")].all_got == {"eu": 2, "us": 2, "ap": 2}
    assert reached[APART, ("eu",)].all_got == {"eu": 0, "us": 0, "ap": 0}
    assert reached[APART, ("eu",)].some_got == {"eu": 1, "us": 0, "ap": 0}
    assert reached[APART, ("us", "ap")].all_got == {"eu": 0, "us": 1, "ap": 0}


def test_figures_of_a_client_are_counted_from_its_events() -> None:
    message = sent("eu1", 1, SECOND)
    members = (client("eu1"), client("us1"))
    views = [
        trace.GroupInstalled(client("eu1"), 0, group, GROUP_VIEW, members, members)
        for group in ("trades", "orders")
    ]
    signal = trace.GroupSignal(client("eu1"), 5, "trades", GROUP_VIEW, members)
    events = [connected()[1], *views, message, got("eu1", message, SECOND), signal]

    assert DemoFigures(events, MARKS).clients() == [ClientSummary("eu1", 1, 1, 0, 2, 1, ["eu1", "us1"])]


def test_times_of_views_are_reported_by_side() -> None:
    found = changes({SPLITTING: {"eu": 2_340_000}, MERGING: {}}, {SPLITTING: {"eu": False}, MERGING: {}})

    assert found == [ViewChangeTimes(SPLITTING, {"eu": 2.34}, {"eu": False})]


# The verdict.


def story() -> list[trace.Event]:
    """Two clients in one view, and two messages."""
    here, there = client("eu1"), client("us1")
    daemons = [trace.ProcessName(name, 1) for name in ("eu1", "us1")]
    events: list[trace.Event] = []
    for daemon in daemons:
        members = tuple(daemons)
        first = trace.ViewName(1, 0 if daemon.daemon == "eu1" else 1, 1)
        events += [
            trace.Recover(daemon, 0),
            trace.ViewInstalled(daemon, 1, first, (daemon,), (daemon,)),
            trace.Signalled(daemon, 2, first, (daemon,)),
            trace.ViewInstalled(daemon, 3, trace.ViewName(2, 0, 1), members, (daemon,)),
        ]
    one, other = sent("eu1", 1, 10), sent("us1", 1, 11)
    members = (here, there)
    for process, mine in ((here, one), (there, other)):
        events += [
            trace.ClientConnected(process, 4, "player", f"#player#{process.daemon}"),
            trace.AsksJoin(process, 5, "trades"),
            trace.GroupInstalled(process, 6, "trades", GROUP_VIEW, members, (process,), "network"),
            mine,
            got(process.daemon, one, 20, 20),
            got(process.daemon, other, 21, 21),
        ]
    return events


def properties(history: list[trace.Event]) -> list[str]:
    judged = judge(history, quiet_end=True, names=["eu1", "us1"])
    return [verdict.property for one in judged for verdict in one.verdicts if not verdict]


def test_a_right_history_passes() -> None:
    judged = judge(story(), quiet_end=True, names=["eu1", "us1"])

    assert properties(story()) == []
    assert [one.good for one in judged] == [True, True]
    assert [one.events for one in judged] == [12, 8]


def test_swapped_messages_break_the_order() -> None:
    history = story()
    history[-1], history[-2] = history[-2], history[-1]

    assert any("agreed" in one for one in properties(history))


def test_a_missing_message_is_missed() -> None:
    assert properties(story()[:-1]) != []


def test_a_daemons_view_that_others_do_not_have_is_found() -> None:
    history = story()
    view = history[3]
    assert isinstance(view, trace.ViewInstalled)
    history[3] = trace.ViewInstalled(view.process, view.at_us, view.view, (view.process,), view.together)

    assert properties(history) != []


def test_an_empty_history_does_not_pass() -> None:
    assert not JudgedHistory("clients", 0, []).good
    assert not JudgedHistory("clients", 0, [holds("all")]).good
    assert not JudgedHistory("clients", 5, [holds("one"), broken("other", "so")]).good
    assert JudgedHistory("clients", 5, [holds("one")]).good


# Output.


def test_all_figures_are_shown() -> None:
    text = " ".join(text_of(summary.closing(FACTS)).split())

    assert "splitting eu after 2.34 s no splitting us ap after 3.12 s yes" in text
    assert "apart us ap 67 268" in text
    assert "agreed apart eu 200 7.5 6.9 19.7" in text
    assert "apart eu 168 166 +2 0 0" in text
    assert "eu1 358 963 478 16 2 eu1 eu2" in text
    assert "✓ clients, EVS-C: 2 of 2 properties hold over 12340 events" in text
    assert "trace out/demo-1/trace.jsonl took 36 s" in text
    assert "✗" not in text


def test_a_violation_is_shown_with_its_witness_and_so_is_a_timeout() -> None:
    bad = JudgedHistory("clients, EVS-C", 9, [holds("one"), broken("EVS-C 2.5", "eu1 got it twice")])
    text = text_of(summary.closing(replace(FACTS, judged=[bad], problems=["waited in vain"])))

    assert "✗ clients, EVS-C: 1 of 2 properties hold over 9 events" in text
    assert "EVS-C 2.5: eu1 got it twice" in text
    assert "✗ waited in vain" in text


def test_the_last_lines_name_the_report_or_the_reason_for_its_absence() -> None:
    reported = replace(FACTS, report="out/demo-1/pipeline/report.html", pipeline="pipeline on Spark: all hold")

    assert (
        text_of(summary.last_line(reported))
        == "pipeline on Spark: all hold\nreport out/demo-1/pipeline/report.html\n"
    )
    assert text_of(summary.last_line(replace(FACTS, pipeline=LEFT_OUT))) == f"{LEFT_OUT}\n"


def test_without_spark_one_line_says_what_to_install() -> None:
    nothing: dict[str, object] = {}
    assert lacking(nothing.get) == INSTALL
    assert "\n" not in INSTALL
    assert "pip install 'hopring[spark,jdk]'" in INSTALL


def test_without_a_terminal_each_step_of_a_job_has_a_line_on_stderr(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with DemoScreen(True) as screen, screen.steps() as say:
        say("starting Spark")
        say("ingest")

    assert capsys.readouterr() == ("", "starting Spark ...\ningest ...\n")


def test_without_a_terminal_there_are_plain_lines() -> None:
    lines = played(Console(file=io.StringIO(), soft_wrap=True)).splitlines()

    assert [line.split(" s  ")[1] for line in lines] == [
        "together",
        "6 clients are in one view of each group, and send",
        "the network is cut: eu | us ap",
        "at eu1  trades is closing; still together  eu1 eu2",
        "at eu1  trades has a new view of           eu1 eu2; not primary",
        "at us1  trades has a new primary view of   us1",
        "apart",
        "the network is whole again",
        "at eu1  trades has a new primary view of   eu1 eu2 us1; came together  eu1 eu2",
        "together again",
    ]


def test_with_json_nothing_is_shown() -> None:
    assert played(Console(file=io.StringIO()), quiet=True) == ""


@pytest.mark.parametrize("no_color", [True, False])
def test_a_terminal_has_a_live_table_unless_no_color_is_set(
    monkeypatch: pytest.MonkeyPatch, no_color: bool
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    console = Console(file=io.StringIO(), force_terminal=True, width=100, soft_wrap=True)
    with DemoScreen(False, console) as screen:
        screen.doing("clients join")
        screen.show_clients([Shown()])
    assert isinstance(console.file, io.StringIO)

    assert ("its view of trades" in console.file.getvalue()) is not no_color
