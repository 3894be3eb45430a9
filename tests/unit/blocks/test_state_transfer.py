"""The core of state transfer: members of one group on an ideal order, fed by hand."""

from collections import deque
from dataclasses import dataclass, field

from hopring.blocks.snapshot import TransferSizes
from hopring.blocks.state_events import (
    BeginsHere,
    GiveEvent,
    GroupMarkShown,
    MemberMarkArrived,
    NobodySpeaks,
    OperationShown,
    Output,
    SendMark,
    SessionLost,
    SnapshotRefused,
    SnapshotTaken,
    SpeakerFailed,
    Standing,
    TakeSnapshot,
    TakeState,
    ViewShown,
)
from hopring.blocks.state_header import (
    Claim,
    ClaimMark,
    EndMark,
    FailedMark,
    StateMark,
    decode_claim,
    decode_state,
    encode_claim,
    encode_state,
)
from hopring.blocks.state_transfer import StateTransfer
from hopring.client.events import Member, View
from hopring.groups.names import GroupViewId, ViewCause
from hopring.ids import DaemonId, Incarnation, Place, ViewId

SIZES = TransferSizes(chunk_bytes=4, window_chunks=2, receipt_chunks=1)
NAMES = ("anna", "bert", "carl", "dora")
MEMBERS = {name: Member("eu1", name, 1, number) for number, name in enumerate(NAMES)}
DAEMONS_VIEW = ViewId(1, DaemonId(0), Incarnation(1))


@dataclass
class Program:
    """A member: its core, and a state of one text."""

    name: str
    core: StateTransfer
    state: str | None = None
    outputs: list[Output] = field(default_factory=list)
    fails: str = ""
    promised: int | None = None

    def step(self, event: object) -> list[SendMark]:
        sent: list[SendMark] = []
        for output in self.core.step(event):  # type: ignore[arg-type]
            self.outputs.append(output)
            match output:
                case SendMark():
                    sent.append(output)
                case TakeSnapshot() if self.fails:
                    sent.extend(self.step(SnapshotRefused(self.fails)))
                case TakeSnapshot():
                    assert self.state is not None
                    sent.extend(self.step(SnapshotTaken(iter([self.state.encode()]), self.promised)))
                case TakeState(states):
                    self.state = "+".join(one.decode() for one in states)
                case BeginsHere():
                    self.state = ""
                case GiveEvent(item) if isinstance(item, str):
                    assert self.state is not None
                    self.state += item
        return sent


class OneGroup:
    """A group on an ideal order: what is sent has its place at once, and each member takes it in turn."""

    def __init__(self, *names: str, merges: bool = False) -> None:
        self.programs = {name: Program(name, StateTransfer(merges, SIZES)) for name in names}
        self.queues: dict[str, deque[object]] = {name: deque() for name in names}
        self.views = 0
        self.place = 0

    def view(
        self, *names: str, cause: ViewCause = "join", sides: tuple[str, ...] = (), primary: bool = False
    ) -> None:
        """A view of these members; `sides` has the sets that come from one view, as texts of initials."""
        self.views += 1
        sets = sides or (*[one[0] for one in names[-1:]], "".join(one[0] for one in names[:-1]))
        for name in names:
            side = next(one for one in sets if name[0] in one)
            together = tuple([MEMBERS[one] for one in names if one[0] in side])
            members = tuple([MEMBERS[one] for one in names])
            view = View(
                "g", GroupViewId(DAEMONS_VIEW, (), self.views), members, together, cause, None, (), primary
            )
            self.queues[name].append(ViewShown(view, MEMBERS[name].private_group))

    def say(self, text: str, *names: str) -> None:
        """A message of the program, for these members."""
        self.place += 1
        for name in names:
            self.queues[name].append(OperationShown(text, Place(DAEMONS_VIEW, self.place, 0)))

    def run(self, *names: str) -> None:
        """These members, or all, take what there is for them."""
        some = names or tuple(self.programs)
        while any(self.queues[name] for name in some):
            for name in some:
                if self.queues[name]:
                    self._carry(name, self.programs[name].step(self.queues[name].popleft()))

    def _carry(self, sender: str, sent: list[SendMark]) -> None:
        private = MEMBERS[sender].private_group
        for one in sent:
            for name in self.programs:
                if one.to == MEMBERS[name].private_group:
                    self.queues[name].append(MemberMarkArrived(private, one.mark, one.data))  # type: ignore[arg-type]
                elif not one.to:
                    self.queues[name].append(GroupMarkShown(private, one.mark, one.data))  # type: ignore[arg-type]

    def states(self) -> list[str | None]:
        return [one.state for one in self.programs.values()]


def two_with_state() -> OneGroup:
    """Anna and bert, with the state "abc", and carl, who is not in the group yet."""
    group = OneGroup("anna", "bert", "carl")
    group.view("anna")
    group.run()
    group.say("abc", "anna")
    group.view("anna", "bert")
    group.run()
    assert group.states() == ["abc", "abc", None]
    return group


def test_the_first_member_begins_with_its_own_state() -> None:
    group = OneGroup("anna")
    group.view("anna")
    group.run()

    assert isinstance(group.programs["anna"].outputs[1], BeginsHere)
    assert group.programs["anna"].core.ready


def test_messages_since_the_view_wait_and_follow() -> None:
    group = two_with_state()
    group.view("anna", "bert", "carl")
    group.say("d", "anna", "bert", "carl")
    group.run()
    group.say("e", "anna", "bert", "carl")
    group.run()

    assert group.states() == ["abcde"] * 3
    takes = [one for one in group.programs["carl"].outputs if isinstance(one, TakeState)]
    assert [one.states for one in takes] == [(b"abc",)]
    assert [one.view.members[-1].name for one in takes] == ["carl"]


def test_a_program_without_state_gets_nothing_before_it_is_ready() -> None:
    group = two_with_state()
    group.view("anna", "bert", "carl")
    group.say("d", "anna", "bert", "carl")
    group.run()

    told = [one for one in group.programs["carl"].outputs if not isinstance(one, SendMark)]
    assert [type(one) for one in told] == [TakeState, GiveEvent]


def test_another_member_speaks_when_the_speaker_is_gone() -> None:
    group = two_with_state()
    group.view("anna", "bert", "carl")
    group.run("carl", "bert")
    group.say("d", "bert", "carl")
    group.view("bert", "carl", cause="disconnect", sides=("bc",))
    group.run("bert", "carl")

    assert group.states()[1:] == ["abcd", "abcd"]


def test_a_speaker_whose_snapshot_fails_is_told_and_another_one_speaks() -> None:
    group = two_with_state()
    group.programs["anna"].fails = "OSError: no memory"
    group.view("anna", "bert", "carl")
    group.say("d", "anna", "bert", "carl")
    group.run()

    assert group.states() == ["abcd"] * 3
    assert SpeakerFailed("OSError: no memory") in group.programs["anna"].outputs


def test_a_snapshot_that_lies_about_its_length_is_a_failure_of_the_speaker() -> None:
    group = two_with_state()
    group.programs["anna"].promised = 7
    group.view("anna", "bert", "carl")
    group.run()

    assert group.states() == ["abc"] * 3
    failed = [one for one in group.programs["anna"].outputs if isinstance(one, SpeakerFailed)]
    assert failed == [SpeakerFailed("BrokenSnapshot: 3 bytes, and 7 were promised")]


def test_if_all_snapshots_fail_the_joiner_is_told_why() -> None:
    group = two_with_state()
    group.programs["anna"].fails = group.programs["bert"].fails = "no memory"
    group.view("anna", "bert", "carl")
    group.run()

    anna, bert = MEMBERS["anna"].private_group, MEMBERS["bert"].private_group
    assert group.programs["carl"].outputs[-1] == NobodySpeaks(((anna, "no memory"), (bert, "no memory")))
    assert not group.programs["carl"].core.ready


def test_both_sides_of_a_merge_are_merged_where_programs_can() -> None:
    group = OneGroup("anna", "bert", merges=True)
    group.view("anna")
    group.run("anna")
    group.say("x", "anna")
    group.run("anna")
    bert = group.programs["bert"]
    bert.core.standing, bert.state = Standing.LIVE, "y"
    group.view("anna", "bert", cause="network", sides=("a", "b"))
    group.say("z", "anna", "bert")
    group.run()

    assert group.states() == ["x+yz", "x+yz"]


def test_the_state_of_the_primary_side_wins() -> None:
    group = OneGroup("anna", "bert", "carl")
    group.view("anna", primary=True)
    group.run("anna")
    group.say("x", "anna")
    group.view("anna", "bert", primary=True)
    group.run("anna", "bert")
    group.queues["carl"].clear()
    group.view("anna", cause="network", sides=("a",))
    group.say("lost", "anna")
    group.run("anna")
    group.say("kept", "bert")
    group.run("bert")
    group.view("anna", "bert", cause="network", sides=("a", "b"))
    group.run("anna", "bert")

    assert group.states()[:2] == ["xkept", "xkept"]


def test_who_is_cut_off_in_the_middle_does_not_begin_by_itself() -> None:
    group = two_with_state()
    group.view("anna", "bert", "carl")
    group.run("carl")
    group.view("carl", cause="network", sides=("c",))
    group.run("carl")

    carl = group.programs["carl"].core
    assert carl.stuck
    assert (carl.standing, group.states()[2]) == (Standing.AWARE, None)


def test_after_everybody_has_reconnected_the_state_is_still_there() -> None:
    group = two_with_state()
    for name in ("anna", "bert"):
        group.programs[name].step(SessionLost())
    group.view("bert", sides=("b",))
    group.run("bert")
    group.view("bert", "anna", sides=("a", "b"))
    group.say("d", "bert", "anna")
    group.run("bert", "anna")

    assert group.states()[:2] == ["abcd", "abcd"]


def test_marks_and_claims_survive_the_wire() -> None:
    marks: list[StateMark] = [ClaimMark("0123456789abcdef-0"), EndMark("0123456789abcdef-12", 3, 0, 99)]
    claim = Claim((0, 2), 3, (1, 2), (), True, ("#anna#eu1", "0123456789abcdef-0"))

    assert [decode_state(encode_state(one)) for one in marks] == marks
    assert decode_claim(encode_claim(claim)) == claim


def test_malformed_marks_are_none() -> None:
    good = encode_state(FailedMark("0123456789abcdef-0"))

    for text in (
        "",
        "c",
        "x.0123456789abcdef-0",
        good + ".1",
        "k.0123456789abcdef-0",
        "k.0123456789abcdef-0.-1",
    ):
        assert decode_state(text) is None
    assert decode_claim(b"[1]") is None
    assert decode_claim(b"\xff") is None
