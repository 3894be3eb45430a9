"""The story of incidents, from logs: which link or daemon, and why; and clocks that are apart."""

import pytest
from tests.unit.cli.why.told_logs import DAY, ToldLog, split

from hopring.cli.monitor.event_lines import read_events
from hopring.cli.why.clocks import ClockEstimate
from hopring.cli.why.diagnosis import Diagnosis, FaultKind
from hopring.cli.why.evidence import Evidence
from hopring.cli.why.incidents import Incident
from hopring.cli.why.story import Story, clocks_text, incident_of, incident_text, make_story, stranger_text

HOUR_S = 3_600.0
CUT = r"{\"verb\": \"cut\", \"daemons\": [\"us1\", \"us2\"]}"
DONE = r'answer="{\"ok\":true}"'


def evidence_of(*logs: ToldLog) -> Evidence:
    evidence = Evidence(sites={"eu": ["eu1", "eu2"], "us": ["us1", "us2"]})
    for log in logs:
        evidence.add(log.daemon, read_events(log.text.splitlines())[0])
    return evidence


def story_of(*logs: ToldLog) -> Story:
    return make_story(evidence_of(*logs))


def last(*logs: ToldLog) -> tuple[Incident, Diagnosis]:
    return story_of(*logs).incidents[-1]


def test_both_sides_of_a_split_say_that_nothing_passed() -> None:
    story = story_of(*split())
    ((incident, diagnosis),) = story.incidents

    assert (diagnosis.fault, diagnosis.where) == (FaultKind.NETWORK, "link eu-us")
    assert incident.sides == [("eu1", "eu2"), ("us1", "us2")]
    assert incident.healed is not None
    assert incident.noticed_at_s - DAY.timestamp() == pytest.approx(61.2)
    text = incident_text(incident, diagnosis)
    assert "what    2 sides: eu1 eu2 | us1 us2\n" in text
    assert "eu1 heard us1 last at 2026-03-02T06:18:00.000Z" in text
    assert "until   2026-03-02T06:18:40.000Z (38.8 s later), by view 4.0.00000000000000aa" in text


@pytest.mark.parametrize("side", [slice(0, 2), slice(2, 4)])
def test_one_side_alone_names_the_link_and_says_that_the_other_is_not_known(side: slice) -> None:
    _, diagnosis = last(*split()[side])

    assert (diagnosis.fault, diagnosis.where) == (FaultKind.ONE_SIDE, "link eu-us")
    assert "nothing is known from" in diagnosis.text


@pytest.mark.parametrize("ahead_s", [HOUR_S, -HOUR_S, 0.0])
def test_clocks_an_hour_apart_tell_the_same_story(ahead_s: float) -> None:
    story = story_of(*split(ahead_s))
    ((incident, diagnosis),) = story.incidents

    assert (diagnosis.fault, incident.sides) == (FaultKind.NETWORK, [("eu1", "eu2"), ("us1", "us2")])
    assert story.clocks["us1"].ahead_s - story.clocks["eu1"].ahead_s == pytest.approx(ahead_s, abs=0.1)
    assert story.clocks["us1"].error_s < 0.1
    assert ("us1 +3600.0" in clocks_text(story)) == (ahead_s > 0)


def test_clocks_that_share_no_view_count_as_equal_and_that_is_said() -> None:
    lone = ToldLog("ap1", "ap")
    lone.view(5.0, "1.7", "ap1", "cause=start kind=start")

    assert "ap1 unknown, taken as equal" in clocks_text(story_of(*split(), lone))


def test_clocks_that_were_asked_need_no_common_view() -> None:
    evidence = evidence_of(*split(HOUR_S)[::2])
    evidence.asked = {"eu1": ClockEstimate(0.01, 0.02), "us1": ClockEstimate(HOUR_S, 0.02)}
    story = make_story(evidence)

    assert story.clocks["us1"].ahead_s == HOUR_S
    assert "against this host's clock: us1 +3600.000 s (within 0.020)" in clocks_text(story)


def test_an_end_that_only_heard_of_the_loss_shows_which_direction_failed() -> None:
    eu1, us1 = ToldLog("eu1", "eu"), ToldLog("us1", "us")
    for log in (eu1, us1):
        log.view(10.0, "2.0", "eu1,us1", "kind=start")
    eu1.view(62.0, "3.0", "eu1", "gone=us1 kind=link witness=eu1 peer=us1 link=eu-us silence=1.2 noticed=0.1")
    us1.view(63.0, "3.2", "us1", "gone=eu1 kind=lost witness=us1 peer=eu1 noticed=0.9")
    _, diagnosis = last(eu1, us1)

    assert (diagnosis.fault, diagnosis.where) == (FaultKind.ONE_WAY, "link eu-us")
    assert "packets from us1 to eu1 were lost" in diagnosis.text


def test_a_cut_by_hand_goes_before_what_was_missed_and_its_time_may_be_long_ago() -> None:
    logs = split()
    logs[0].lines.insert(2, '2026-03-02T06:17:30.000Z eu1 admin user=7 request="' + CUT + '" ' + DONE)
    _, diagnosis = last(*logs)

    assert (diagnosis.fault, diagnosis.where) == (FaultKind.CUT, "link eu-us")
    assert "eu1 was cut off from us1 us2 by user 7" in diagnosis.text
    assert "hop monitor heal" in diagnosis.remedy


@pytest.mark.parametrize(
    "undone",
    [
        r'admin user=7 request="{\"verb\": \"heal\"}" answer="{\"ok\":true}"',
        'admin healed=us1,us2 why="the time of the cut is over"',
    ],
)
def test_a_cut_that_was_undone_before_is_not_to_blame(undone: str) -> None:
    logs = split()
    logs[0].lines.insert(2, '2026-03-02T06:17:30.000Z eu1 admin user=7 request="' + CUT + '" ' + DONE)
    logs[0].lines.insert(3, f"2026-03-02T06:17:40.000Z eu1 {undone}")

    assert last(*logs)[1].fault is FaultKind.NETWORK


def test_a_cut_that_was_refused_is_not_to_blame() -> None:
    logs = split()
    refused = DONE.replace("true", "false")
    logs[0].lines.insert(2, '2026-03-02T06:17:30.000Z eu1 admin user=7 request="' + CUT + '" ' + refused)

    assert last(*logs)[1].fault is FaultKind.NETWORK


def test_a_daemon_that_says_it_did_not_run_is_to_blame_and_not_whom_others_missed() -> None:
    logs = split()
    logs[2].lines[2:] = []
    logs[3].lines[2:] = []
    logs[2].say(99.8, 'stalled seconds=39.8 text="this daemon did not run"')
    stall = "cause=late kind=stall witness=us1 silence=39.8 noticed=0.2"
    logs[2].view(100.0, "4.0", "eu1,eu2,us1,us2", stall)
    incident, diagnosis = last(*logs)

    assert (diagnosis.fault, diagnosis.where) == (FaultKind.STALLED, "us1")
    assert "us1 did not run for 39.8 s" in diagnosis.text
    assert incident.sides[0] == ("eu1", "eu2")


def ring_loss(*more: str) -> list[ToldLog]:
    """eu1 misses eu2 at 60 s; what eu2 says itself follows."""
    eu1, eu2 = ToldLog("eu1", "eu"), ToldLog("eu2", "eu")
    for log in (eu1, eu2):
        log.view(10.0, "2.0", "eu1,eu2", "kind=start")
    facts = "kind=ring witness=eu1 peer=eu2 link=eu silence=0.3 noticed=0.1"
    eu1.view(60.5, "3.0", "eu1", f"gone=eu2 {facts}")
    for at_s, words in enumerate(more):
        eu2.say(60.0 + at_s, words)
    return [eu1, eu2]


def test_a_daemon_that_starts_again_without_an_end_has_crashed() -> None:
    logs = ring_loss()
    logs[1].say(62.6, "start version=0.1.0 site=eu after=crash")
    _, diagnosis = last(*logs)

    assert (diagnosis.fault, diagnosis.where) == (FaultKind.CRASHED, "eu2")
    assert "started again 2.2 s after its loss was noticed" in diagnosis.text


def test_a_daemon_that_leaves_was_stopped() -> None:
    assert last(*ring_loss("leave", "end"))[1].fault is FaultKind.STOPPED


def test_a_daemon_of_which_nothing_is_known_is_named() -> None:
    _, diagnosis = last(*ring_loss())

    assert (diagnosis.fault, diagnosis.where) == (FaultKind.UNREACHED, "eu2")


def test_daemons_of_a_site_that_all_ran_lost_their_network() -> None:
    logs = ring_loss()
    logs[1].view(60.9, "3.1", "eu2", "gone=eu1 kind=ring witness=eu2 link=eu silence=0.3 noticed=0.1")
    _, diagnosis = last(*logs)

    assert (diagnosis.fault, diagnosis.where) == (FaultKind.NETWORK, "site eu")
    assert "eu1 | eu2" in diagnosis.text


@pytest.mark.parametrize(
    ("why", "fault"),
    [
        ("Connection refused", FaultKind.NOT_RUNNING),
        ("No such file or directory", FaultKind.NOT_RUNNING),
        ("no answer within 2 s", FaultKind.NOT_ANSWERING),
        ("what answers is no daemon", FaultKind.UNREACHED),
    ],
)
def test_how_a_lost_daemon_does_not_answer_tells_what_it_is(why: str, fault: FaultKind) -> None:
    evidence = evidence_of(ring_loss()[0])
    evidence.silent["eu2"] = why
    ((_, diagnosis),) = make_story(evidence).incidents

    assert (diagnosis.fault, diagnosis.where) == (fault, "eu2")


@pytest.mark.parametrize(
    ("kind", "fault"),
    [("overload", FaultKind.OVERLOAD), ("disk", FaultKind.DISK), ("protocol", FaultKind.PROTOCOL)],
)
def test_some_reasons_say_all_by_themselves(kind: str, fault: FaultKind) -> None:
    log = ToldLog("eu1", "eu")
    log.view(10.0, "2.0", "eu1,eu2", "kind=start")
    log.view(60.0, "3.0", "eu1,eu2", f"cause=it kind={kind} witness=eu1 noticed=0.1")

    assert last(log)[1].fault is fault


def test_a_reload_is_no_fault_of_a_link() -> None:
    log = ToldLog("eu1", "eu")
    log.view(60.0, "3.0", "eu1", "gone=eu2 cause=it kind=reload witness=eu2 noticed=0.1")

    assert last(log)[1].fault is FaultKind.RELOADED


def test_losses_far_apart_are_two_incidents_and_a_view_names_its_own() -> None:
    logs = split()
    logs[0].view(500.0, "5.0", "eu1", "gone=eu2 kind=ring witness=eu1 peer=eu2 link=eu silence=0.3 noticed=0.1")
    story = story_of(*logs)

    assert len(story.incidents) == 2
    assert incident_of(story, "3.2") == story.incidents[0]
    assert incident_of(story, "4.0.00000000000000aa") == story.incidents[0]
    assert incident_of(story, "5.0") == story.incidents[1]
    assert incident_of(story, "2.0") is None
    with pytest.raises(ValueError, match=r"77\.0"):
        incident_of(story, "77.0")


def test_a_loss_soon_after_the_others_met_again_is_another_incident() -> None:
    logs = split()
    logs[0].view(
        101.5, "5.0", "eu1,eu2,us2", "gone=us1 kind=ring witness=us2 peer=us1 link=us silence=0.3 noticed=0.1"
    )
    logs[2].view(130.0, "6.0", "eu1,eu2,us1,us2", "cause=it kind=stall witness=us1 silence=29.0 noticed=0.4")
    story = story_of(*logs)

    assert [one.fault for _, one in story.incidents] == [FaultKind.NETWORK, FaultKind.STALLED]
    assert len(story.incidents[1][0].views) == 2


def test_views_that_met_before_the_end_are_one_side() -> None:
    logs = split()
    logs[1].lines.insert(2, logs[1].lines[2].replace("3.0.", "2.7.").replace("eu1,eu2", "eu2"))
    incident, _ = last(*logs)

    assert incident.sides == [("eu1", "eu2"), ("us1", "us2")]


def test_an_end_that_missed_another_daemon_of_that_side_shows_that_nothing_passed() -> None:
    logs = [ToldLog("ap1", "ap"), *split()[::2]]
    logs[2].lines[2] = logs[2].lines[2].replace("peer=eu1", "peer=ap1").replace("gone=eu1", "gone=ap1,eu1")
    logs[1].lines[2] = logs[1].lines[2].replace("members=eu1", "members=ap1,eu1")
    _, diagnosis = last(*logs)

    assert (diagnosis.fault, diagnosis.where) == (FaultKind.NETWORK, "link eu-us")
    assert diagnosis.text.endswith("in either direction: eu1 missed us1, and us1 missed ap1")


def test_a_daemon_with_another_configuration_is_no_incident_and_is_named() -> None:
    eu1, us1 = ToldLog("eu1", "eu"), ToldLog("us1", "us")
    eu1.view(10.0, "1.0", "eu1", "kind=start")
    us1.view(10.0, "1.1", "us1", "kind=start")
    eu1.say(12.0, 'refused daemon=us1 address=x problem="cluster hash 1, ours is 2" remedy="compare the files"')
    story = story_of(eu1, us1)

    assert story.incidents == []
    told = {one.where: one for one in story.strangers}
    assert told["us1"].fault is FaultKind.REFUSED
    assert "cluster hash 1, ours is 2 (said by eu1)" in told["us1"].text
    assert "do      compare the files" in stranger_text(told["us1"])


def test_names_of_any_characters_are_shown_harmlessly() -> None:
    log = ToldLog("eu1", "eu")
    log.view(
        60.0, "3.0", "eu1", r'gone="\u001b[31m\u202eeu2" cause="\u0007" kind=link witness=eu1 peer="\u001b"'
    )
    text = incident_text(*last(log))

    assert not set(text) & {"\x1b", "\u202e", "\x07"}
