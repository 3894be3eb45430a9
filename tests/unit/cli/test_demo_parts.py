"""The pure parts of the demonstration: bundles, words, history, figures, and what is shown."""

import io
from dataclasses import replace

from rich.console import Console, RenderableType

from hopring.check.network import check_network
from hopring.check.verdict import Verdict
from hopring.cli.demo import show, world
from hopring.cli.demo.bundles import BUNDLE_BYTES, identify, make_bundle
from hopring.cli.demo.facts import Clean, Demo, Latency, LinkLoss, Lossy, Pruned, Rerouted, Tally
from hopring.cli.demo.figures import difference, latencies_of, losses_of, tally_of
from hopring.cli.demo.history import History, judge
from hopring.cli.demo.words import (
    Command,
    Count,
    Ended,
    Happening,
    Lines,
    LinkCount,
    Received,
    Send,
    Sent,
    Start,
    Started,
    decode_commands,
    decode_events,
    encode_line,
)
from hopring.config import dump_toml, parse_config

SITE_OF = {"eu1": "eu", "eu2": "eu", "us1": "us"}
WIRE_MS = {("eu", "us"): 40}


def started(at_us: int, daemon: str, network: int = 1) -> Started:
    return Started(at_us, daemon, network, sorted(SITE_OF))


def sent(at_us: int, bundle: str, *wanted_by: str) -> Sent:
    return Sent(at_us, bundle.partition("-")[0], bundle, sorted(wanted_by or SITE_OF))


def received(at_us: int, bundle: str, *daemons: str) -> list[Happening]:
    return [Received(at_us, daemon, bundle) for daemon in daemons]


def test_a_bundle_is_known_by_its_identity_until_a_byte_changes() -> None:
    identity, bundle = make_bundle("eu1", 7)

    assert (identity, len(bundle)) == ("eu1-00007", BUNDLE_BYTES)
    assert identify(bundle) == identity
    assert identify(bundle[:-1] + b"!") == "damaged eu1-00007"
    assert identify(b"\xff") == "damaged \ufffd"


def test_words_survive_the_pipe_however_it_cuts_them() -> None:
    words: list[Command] = [Start(2, {"eu1": 2**64 - 1}, [("ap", "eu")]), Send(1, 2, 3, 4, ["eu"]), Count()]
    text = b"".join([encode_line(word) for word in words])
    lines = Lines()

    assert [word for at in range(len(text)) for word in decode_commands(lines.add(text[at : at + 1]))] == words


def test_a_history_is_merged_by_time_and_keeps_each_daemons_order() -> None:
    history = History()
    for one in [
        sent(10, "eu1-1"),
        *received(10, "eu1-1", "eu1"),
        started(5, "us1"),
        *received(60, "eu1-1", "us1"),
    ]:
        history.add(one)
    mark = history.mark()
    history.add(Ended(99, "us1", "silence"))

    assert [one.at_us for one in history.all()] == [5, 10, 10, 60, 99]
    assert isinstance(history.all()[1], Sent)
    assert history.since(mark) == [Ended(99, "us1", "silence")]
    assert len(history.before(mark)) == 4
    assert (history.sent, history.received, history.running[1], list(history.ended)) == (1, 2, 1, ["us1"])

    history.add(started(100, "us1", network=2))
    assert history.ended == {}


def test_the_tally_counts_only_what_is_owed_and_sees_doubles_and_losses() -> None:
    happenings = [
        sent(1, "eu1-1", "us1"),
        *received(2, "eu1-1", "eu1", "us1"),  # The sender has its own, which nobody expects.
        sent(3, "eu1-2"),
        *received(4, "eu1-2", "eu1", "us1", "us1"),
    ]

    assert tally_of(happenings) == Tally(sent=2, expected=4, received=3, duplicates=1, lost=1)
    assert tally_of(happenings) + Tally(1, 1, 1) == Tally(3, 5, 4, 1, 1)


def test_latencies_are_per_pair_of_sites_in_both_directions() -> None:
    happenings = [
        sent(0, "eu1-1"),
        *received(0, "eu1-1", "eu1"),
        *received(1_000, "eu1-1", "eu2"),
        *received(41_000, "eu1-1", "us1"),
        sent(100_000, "us1-1"),
        *received(143_000, "us1-1", "eu1"),
    ]

    assert latencies_of(happenings, SITE_OF, WIRE_MS) == [
        Latency(("eu", "us"), 40, 42.0, 43.0),
        Latency(None, 0, 1.0, 1.0),
    ]
    assert latencies_of([], SITE_OF, WIRE_MS) == []


def test_losses_are_what_both_ends_counted_in_between() -> None:
    before = {("eu1", "us1"): LinkCount(10, 1, 1_000, 0, 1)}
    after = {("eu1", "us1"): LinkCount(110, 6, 90_000, 2, 4), ("us1", "eu1"): LinkCount(50, 2, 5_000, 3, 1)}

    assert losses_of(difference(after, before), SITE_OF, WIRE_MS) == [LinkLoss(("eu", "us"), 150, 7, 5, 4)]


def test_a_loss_before_the_cut_is_seen_though_the_network_ended_later() -> None:
    history = History()
    for daemon in SITE_OF:
        history.add(started(0, daemon))
    for one in [sent(1, "eu1-1"), *received(2, "eu1-1", "eu1", "eu2")]:
        history.add(one)
    mark = history.mark()
    history.add(Ended(50, "us1", "silence"))

    assert all(judge(history.all()))
    broken = [verdict for verdict in judge(history.before(mark), history.all()) if not verdict]
    assert [verdict.witness for verdict in broken] == ["b'eu1-1' from eu1 never came to us1 in network 1"]


def test_the_configuration_of_the_demonstration_is_one_that_could_be_written_to_a_file() -> None:
    config = world.make_config()

    assert parse_config(dump_toml(config)) == config
    assert world.delay_ms("ap", "eu") == world.delay_ms("eu", "ap") == 80
    assert world.delay_ms("eu", "eu") == 0


def text_of(*results: RenderableType) -> str:
    console = Console(file=io.StringIO(), width=100)
    for result in results:
        console.print(result, soft_wrap=True)
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


FINE = Tally(10, 60, 60)
CLEAN = Clean([Latency(("eu", "us"), 40, 41.5, 43.25), Latency(None, 0, 0.5, 1.0)], FINE)
LOSSY = Lossy(5.0, CLEAN.latencies, [LinkLoss(("eu", "us"), 1_000, 50, 40, 45)], FINE)
PRUNED = Pruned("eu", "us", 500_000, "ap", 20_000, 4.0, FINE)
REROUTED = Rerouted(
    ("eu", "ap"), {"eu1": 1_512.0}, 2, 1_700.0, [Latency(("eu", "ap"), 100, 101.5, 103.0)], FINE
)


def test_results_are_shown_beside_each_other() -> None:
    shown = [line.rstrip() for line in text_of(show.lossy(LOSSY, CLEAN)).splitlines()]

    assert shown == [
        "2  The same, with 5 % of all datagrams between sites lost",
        "  latency in ms   wire   mean    p99   mean before",
        "  eu–us             40   41.5   43.2          41.5",
        "  within a site      0    0.5    1.0           0.5",
        "",
        "  link    datagrams   lost           NACKs   sent again",
        "  eu–us        1000     50   5.0 %      40           45",
        "",
        "  ✓ 60 of 60 received",
        "",
    ]


def test_the_story_of_the_cut_is_told_in_its_order() -> None:
    shown = text_of(show.rerouted(REROUTED))

    assert "after 1.51 s  eu1 notices that the other end is silent\n" in shown
    assert "after 1.70 s  on network 2, the first bundle crosses by way of us\n" in shown
    assert "eu–ap by us" in shown
    assert "4.0 %" in text_of(show.pruned(PRUNED))
    assert "eu–us 40 ms" in text_of(show.opening())


def test_a_network_that_ended_by_itself_is_told_in_full() -> None:
    reason = "network 1 ended at us1: " + "a long story " * 10
    shown = text_of(show.closing(replace(whole(), restarts=[reason])))

    assert f"  ! {reason}; its phase was repeated\n" in shown


def whole(*verdicts: Verdict) -> Demo:
    judged = verdicts or tuple(check_network([]))
    return Demo(
        all(judged), "0", 20.0, CLEAN, LOSSY, PRUNED, REROUTED, FINE, list(judged), [], "out/trace.jsonl"
    )


def test_a_broken_property_is_told_with_its_witness() -> None:
    shown = text_of(show.closing(whole(Verdict("2.21 x", True), Verdict("2.22 y", False, "a story"))))

    assert "✓ 2.21 x\n" in shown
    assert "✗ 2.22 y: a story\n" in shown


def test_events_are_spelled_as_in_the_thesis() -> None:
    events = [started(0, "eu1"), sent(1, "eu1-1"), *received(2, "eu1-1", "us1"), Ended(3, "us1", "silence")]
    lines = [encode_line(event) for event in events]

    assert [line.split(b'"')[3] for line in lines] == [b"ninit", b"nmcast", b"nreceive", b"nlinkfailed"]
    assert list(decode_events(lines)) == events
