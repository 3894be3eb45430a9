from dataclasses import replace

from hopring.check.properties.property import Verdict, broken
from hopring.check.trace import (
    Crash,
    Event,
    MessageDelivered,
    MessageId,
    MessageSent,
    Ord,
    ProcessName,
    Recover,
    Signalled,
    ViewInstalled,
    ViewName,
)
from hopring.services import Service
from hopring.sim.campaign.fault_schedule import Fault
from hopring.sim.campaign.runner import WorldOutcome
from hopring.sim.campaign.story import schedule_lines, story
from hopring.sim.campaign.world import SimWorld, draw_world

A, B, B2 = ProcessName("a", 1), ProcessName("b", 2), ProcessName("b", 3)
VIEW = ViewName(1, 0, 1)
M1, M2 = MessageId("a", 1, 1), MessageId("a", 1, 2)

FAULTS = (
    Fault(1_000, "crash", ("b",)),
    Fault(2_000, "partition", ("a=1", "b=0", "c=1")),
    Fault(3_000, "sever", ("a", "b")),
    Fault(4_000, "one_way", ("a", "b")),
    Fault(5_000, "pause", ("a",), 120),
    Fault(6_000, "loss", (), 0.1),
    Fault(1_006_500, "heal"),
)


def a_world() -> SimWorld:
    return replace(draw_world(1), schedule=FAULTS, starts_us=(), lasting=())


def sent(message: MessageId, at_us: int, lts: int) -> MessageSent:
    return MessageSent(A, at_us, VIEW, message, Service.AGREED, Ord(lts, 0, VIEW), 10)


def delivered(process: ProcessName, message: MessageId, at_us: int, lts: int) -> MessageDelivered:
    return MessageDelivered(process, at_us, VIEW, message, Service.AGREED, Ord(lts, 0, VIEW))


HISTORY: list[Event] = [
    Recover(A, 0),
    Recover(B, 0),
    ViewInstalled(A, 100, VIEW, (A, B), (A,), "start"),
    ViewInstalled(B, 100, VIEW, (A, B), (B,), "start"),
    sent(M1, 200, 5),
    sent(M2, 200, 6),
    delivered(A, M1, 300, 5),
    delivered(A, M2, 300, 6),
    delivered(B, M2, 400, 6),
    Crash(B, 1_000),
    Recover(B2, 2_000),
    Signalled(A, 2_500, VIEW, (A,)),
    ViewInstalled(A, 2_500, ViewName(2, 0, 1), (A, B2), (A,), "ring: no token for 150 ms"),
]


def outcome(*verdicts: Verdict) -> WorldOutcome:
    return WorldOutcome(1, 99, verdicts, HISTORY, len(FAULTS))


def test_faults_views_and_signals_are_shown_in_columns_by_time() -> None:
    lines = story(a_world(), outcome())

    assert lines[lines.index("") + 1 : -2] == [
        "    0.000 ms  a        start",
        "    0.000 ms  b        start",
        "    0.100 ms  a        view 1  {a b} with {a}  start",
        "    0.100 ms  b        view 1  {a b} with {b}  start",
        "    1.000 ms  b        crash",
        "    2.000 ms  network  partition b | a c",
        "    2.000 ms  b.2      start",
        "    2.500 ms  a        signal in view 1 for {a}",
        "    2.500 ms  a        view 2  {a b.2} with {a}  ring: no token for 150 ms",
        "    3.000 ms  network  cut between a and b",
        "    4.000 ms  network  cut from a to b, one way",
        "    5.000 ms  a        pause for 120 ms",
        "    6.000 ms  network  loss of 10% everywhere",
        " 1006.500 ms  network  heal",
        " 3000.000 ms  network  all is healed, for good",
    ]
    assert lines[-1] == "nothing is broken: 99 events, 3 views installed"


def test_the_story_opens_with_the_world() -> None:
    world = a_world()

    assert story(world, outcome())[:4] == [
        "seed 1",
        "daemons  " + " | ".join(" ".join(one.name for one in site.daemons) for site in world.config.sites),
        story(world, outcome())[2],
        f"load     {world.load.per_second} messages/s, and {world.load.burst} just before each break",
    ]
    assert story(world, outcome())[2].startswith("paths    delay ")


def test_a_broken_property_comes_with_its_witness_and_what_happened_around_it() -> None:
    first = broken("2.13(3) no gap", "b delivered a:2 at 400 us in view 1 and never a:1")
    second = broken("2.15 self delivery", "more")

    lines = story(a_world(), outcome(first, second))

    assert lines[lines.index("broken: 2.13(3) no gap") :] == [
        "broken: 2.13(3) no gap",
        "  b delivered a:2 at 400 us in view 1 and never a:1",
        "broken: 2.15 self delivery",
        "  more",
        "",
        "around the first witness",
        "    0.200 ms  a  sent a:1  agreed, lts 5 of site 0, view 1 <--",
        "    0.200 ms  a  sent a:2  agreed, lts 6 of site 0, view 1 <--",
        "    0.300 ms  a  delivered a:1  agreed, lts 5 of site 0, view 1 <--",
        "    0.300 ms  a  delivered a:2  agreed, lts 6 of site 0, view 1 <--",
        "    0.400 ms  b  delivered a:2  agreed, lts 6 of site 0, view 1 <--",
    ]


def test_a_witness_without_messages_has_nothing_around_it() -> None:
    lines = story(a_world(), outcome(broken("I7 one view", "a is seg in view 4")))

    assert lines[-2:] == ["broken: I7 one view", "  a is seg in view 4"]


def test_a_schedule_by_itself_names_crashes_too() -> None:
    assert schedule_lines(FAULTS[:2]) == [
        "    1.000 ms  b        crash",
        "    2.000 ms  network  partition b | a c",
    ]


def test_a_waiting_fault_names_its_condition() -> None:
    waiting = (
        Fault(1_000, "deaf", (), 0, "bound", 1),
        Fault(2_000, "tear", (), 0, "installed", 2),
        Fault(3_000, "wake", ("b",), 0, "adrift", 1),
    )

    assert schedule_lines(waiting) == [
        "    1.000 ms  network  from now on, when a decision binds at 1: these hear nobody",
        "    2.000 ms  network  from now on, when a new view is installed at 2: partition these | the rest",
        "    3.000 ms  b        from now on, when a decision binds whose attempt failed at 1: wake",
    ]


def test_faults_that_the_heal_leaves_are_shown_after_it() -> None:
    world = replace(a_world(), lasting=(Fault(3_000_000, "cut_sites", ("x", "y")),), starts_us=(("b", 5),))

    lines = story(world, outcome())

    assert "    0.005 ms  b        starts late" in lines
    healed = lines.index(" 3000.000 ms  network  all is healed, for good")
    assert lines[healed + 1] == " 3000.000 ms  network  cut between x and y"
