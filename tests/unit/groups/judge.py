"""What clients are promised (EVS-C), judged on the traces of a world; the numbers are those of the thesis."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from tests.unit.groups.book import Book, Got, Out, Shown, Signal, Trace

from hopring.groups.events import Cause, GroupView
from hopring.groups.groups import Groups
from hopring.groups.names import GroupViewId, Member
from hopring.ids import GroupName
from hopring.services import Service

ORDERED = (Service.CAUSAL, Service.AGREED, Service.SAFE)
EARLY = (Service.RELIABLE, Service.FIFO)


@dataclass(slots=True, eq=False)
class Stay:
    """A session in one view of a group."""

    member: Member
    view: GroupView
    before: "Stay | None"  # None after a join.
    after: "Stay | None" = None
    left: bool = False
    got: list[Got] = field(default_factory=list)
    signals: list[int] = field(default_factory=list)  # After how many messages.

    def ordered(self, start: int, end: int | None) -> list[bytes]:
        return [one.label for one in self.got[start:end] if one.service in ORDERED]


@dataclass(slots=True)
class Story:
    """Everything, indexed."""

    traces: list[Trace]
    stays: dict[GroupName, list[Stay]] = field(default_factory=dict)
    got: dict[Member, set[bytes]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def check(self, holds: bool, what: str) -> None:
        if not holds:
            self.faults.append(what)


def story_of(traces: Iterable[Trace]) -> Story:
    story = Story(list(traces))
    for trace in story.traces:
        present: dict[GroupName, Stay] = {}
        me = trace.member
        story.got[me] = set()
        for event in trace.events:
            match event:
                case Shown(view):
                    stay = Stay(me, view, present.get(view.group))
                    if stay.before is not None:
                        stay.before.after = stay
                    present[view.group] = stay
                    story.stays.setdefault(view.group, []).append(stay)
                case Signal(group):
                    story.check(group in present, f"2.1 {me.name}: a signal outside of {group}")
                    present[group].signals.append(len(present[group].got))
                case Out(group):
                    story.check(group in present, f"{me.name} left {group} and was not there")
                    present.pop(group).left = True
                case Got():
                    story.check(event.label not in story.got[me], f"2.5 {me.name}: {event.label!r} twice")
                    story.got[me].add(event.label)
                    here = [present[one] for one in event.groups if one in present]
                    story.check(
                        bool(here) or trace.private in event.groups,
                        f"2.1 {me.name}: {event.label!r} from nowhere",
                    )
                    for stay in here:
                        stay.got.append(event)
    return story


def judge(book: Book, daemons: Collection[Groups]) -> list[str]:
    """All that is broken, in words; these daemons are in one view, and nothing is under way."""
    story = story_of(book.traces.values())
    for trace in story.traces:
        _order(story, trace)
    for group, stays in story.stays.items():
        _views(story, group, stays)
        _synchrony(story, group, stays)
        _agreed_and_safe(story, group, stays)
    _end(story, daemons)
    return story.faults


def _views(story: Story, group: GroupName, stays: list[Stay]) -> None:
    by_id: dict[GroupViewId, list[Stay]] = {}
    last: dict[Member, GroupViewId] = {}
    for stay in stays:
        view, me = stay.view, stay.member
        by_id.setdefault(view.id, []).append(stay)
        story.check(me in view.members, f"2.2 {me.name} is not in its view {view.id}")
        story.check(
            me not in last or last[me] < view.id, f"2.3 {me.name} in {group}: {view.id} after {last.get(me)}"
        )
        last[me] = view.id
        names = [(one.daemon, one.name) for one in view.members]
        story.check(len(set(names)) == len(names), f"a name twice in {group} {view.id}")
        together = set(view.together)
        if stay.before is None:
            story.check(together == {me}, f"2.4(1) {me.name} joins {group} together with {together}")
        else:
            both = set(view.members) & set(stay.before.view.members)
            story.check(together <= both, f"2.4(2) {me.name} in {group} {view.id}")
        story.check(
            len(stay.signals) <= 1, f"2.8(1) {me.name} in {group} {view.id}: {len(stay.signals)} signals"
        )
    for view_id, installed in by_id.items():
        story.check(len({one.view.members for one in installed}) == 1, f"2.20 {group} {view_id}")
        for one in installed:
            for other in installed:
                if one is other:
                    continue
                same = one.before is not None and other.before is not None
                same = same and one.before.view.id == other.before.view.id  # type: ignore[union-attr]
                within = other.member in one.view.together
                story.check(
                    within is same, f"2.4(3) {one.member.name}, {other.member.name} in {group} {view_id}"
                )
                story.check(not same or one.view.together == other.view.together, f"2.4(4) {group} {view_id}")


def _companions(stays: list[Stay]) -> list[tuple[Stay, Stay]]:
    """Stays in one view of sessions that move on together."""
    by_move: dict[tuple[GroupViewId, GroupViewId], list[Stay]] = {}
    for stay in stays:
        if stay.after is not None:
            by_move.setdefault((stay.view.id, stay.after.view.id), []).append(stay)
    return [
        (one, other)
        for some in by_move.values()
        for one in some
        for other in some
        if one is not other and one.after is not None and other.member in one.after.view.together
    ]


def _skips(story: Story, member: Member, label: bytes) -> bool:
    """The sender's own message, which it did not want."""
    trace = next(one for one in story.traces if one.member == member)
    return any(sent == label and discard for sent, _, discard, _ in trace.sent)


def _has(story: Story, member: Member, label: bytes) -> bool:
    return label in story.got.get(member, ()) or _skips(story, member, label)


def _ends(story: Story, group: GroupName, member: Member) -> bool:
    """Whether the session left the group, or ended."""
    trace = next(one for one in story.traces if one.member == member)
    return trace.ended or any(one.left for one in story.stays[group] if one.member == member)


def _synchrony(story: Story, group: GroupName, stays: list[Stay]) -> None:
    for one, other in _companions(stays):
        words = f"{one.member.name} and {other.member.name} in {group} {one.view.id}"
        mine, others = ({*stay.ordered(0, None)} for stay in (one, other))
        wrong = {label for label in mine if label not in others and not _skips(story, other.member, label)}
        story.check(not wrong, f"2.7 {words}: {wrong}")
        for got in _early(one, other.member):
            fine = _has(story, other.member, got.label) or _ends(story, group, other.member)
            story.check(fine, f"2.7 early {words}: {got.label!r}")
        story.check(bool(one.signals) == bool(other.signals), f"2.8(2) {words}: one signal")
        if one.signals and other.signals:
            before, theirs = one.ordered(0, one.signals[0]), other.ordered(0, other.signals[0])
            wrong = {
                label
                for label in {*before} ^ {*theirs}
                if not _skips(story, one.member, label) and not _skips(story, other.member, label)
            }
            story.check(not wrong, f"2.8(2) {words}: {wrong}")


def _early(stay: Stay, other: Member) -> list[Got]:
    """The Reliable and FIFO messages that the other must have too, if both come to the same view of daemons.

    Early ones may lie behind a join in the order; so they are not looked at when somebody joins or leaves, but
    at the next change of network, if the two have been together since.
    """
    out: list[Got] = []
    if stay.after is None or stay.after.view.cause is not Cause.NETWORK:
        return out
    at: Stay | None = stay
    while at is not None:
        out.extend([one for one in at.got if one.service in EARLY])
        at = at.before if other in at.view.together else None
    return out


def _order(story: Story, trace: Trace) -> None:
    me = trace.member
    got = [one for one in trace.events if isinstance(one, Got) and one.service is not Service.UNRELIABLE]
    for at, one in enumerate(got):
        if one.service in ORDERED:
            later = [other for other in got[at + 1 :] if other.place < one.place]
            story.check(
                not later, f"2.13(2) {me.name}: {one.label!r} before {[other.label for other in later]}"
            )
        if one.service in (Service.FIFO, *ORDERED):
            sender = next(each for each in story.traces if each.member.session == one.session)
            labels = [label for label, _, _, _ in sender.sent]
            late = [
                other.label
                for other in got[at + 1 :]
                if other.session == one.session and labels.index(other.label) < labels.index(one.label)
            ]
            story.check(not late, f"2.11 {me.name}: {one.label!r} before {late}")


def _agreed_and_safe(story: Story, group: GroupName, stays: list[Stay]) -> None:
    places: dict[GroupViewId, dict[bytes, Got]] = {}
    for stay in stays:
        places.setdefault(stay.view.id, {}).update({one.label: one for one in stay.got})
    last = {stay.member: stay.view.id for stay in stays}
    for stay in stays:
        me, view = stay.member, stay.view
        cut = stay.signals[0] if stay.signals else len(stay.got)
        for got in stay.got[:cut]:
            if got.service in ORDERED:
                lacks = [
                    label
                    for label, one in places[view.id].items()
                    if one.service is not Service.UNRELIABLE
                    and one.place < got.place
                    and not _has(story, me, label)
                ]
                story.check(not lacks, f"2.13(3) {me.name} in {group} {view.id}: {got.label!r} without {lacks}")
            if got.service is Service.SAFE:
                for one in view.members:
                    # Perhaps in another view: joins are Agreed, and its daemon may have it after its signal.
                    ended = _ends(story, group, one) and (one not in last or last[one] <= view.id)
                    story.check(
                        _has(story, one, got.label) or ended,
                        f"2.14(2) {me.name} in {group} {view.id}: {one.name}, {got.label!r}",
                    )
        for got in stay.got[cut:]:
            if got.service is Service.SAFE and stay.after is not None:
                for one in stay.after.view.together:
                    fine = _has(story, one, got.label) or _ends(story, group, one)
                    story.check(fine, f"2.14(3) {me.name} in {group} {view.id}: {one.name}, {got.label!r}")


def _end(story: Story, daemons: Collection[Groups]) -> None:
    """After a quiet end in one view: everybody has all that it is owed, and all agree on who is where."""
    tables = [
        {name: (group.id, group.members, group.way) for name, group in one.table.groups.items()}
        for one in daemons
    ]
    story.check(all(one == tables[0] for one in tables), "the daemons do not have the same groups")
    expected: dict[GroupName, set[Member]] = {}
    for trace in story.traces:
        story.check(trace.gone or not trace.ended, f"{trace.member.name}: its end was lost")
        if not trace.ended:
            for group in trace.joined:
                expected.setdefault(group, set()).add(trace.member)
    actual = {name: members for name, (_, members, _) in tables[0].items()}
    story.check(actual == expected, f"membership: {actual}, and not {expected}")
    for group, members in expected.items():
        final = {
            stay.member: stay for stay in story.stays.get(group, []) if stay.after is None and not stay.left
        }
        shown = {final[one].view.id for one in members if one in final}
        story.check(group in tables[0] and shown == {tables[0][group][0]}, f"last views of {group}: {shown}")
    _all_there(story, expected)


def _all_there(story: Story, expected: dict[GroupName, set[Member]]) -> None:
    for trace in story.traces:
        for label, groups, discard, service in trace.sent:
            if trace.ended or service is Service.UNRELIABLE:
                continue
            me = trace.member
            since = [stay for group in groups for stay in story.stays.get(group, []) if stay.member == me]
            throughout = [
                stay for stay in since if stay.before is None and not _ends(story, stay.view.group, me)
            ]
            owed = trace.private in groups or any(_before(trace, label, stay.view.group) for stay in throughout)
            story.check(discard or not owed or label in story.got[me], f"2.15 {me.name}: {label!r} was lost")
    # 2.17: whoever gets a message in a group's last view gets it with all its members.
    for group, members in expected.items():
        final = [stay for stay in story.stays.get(group, []) if stay.after is None and not stay.left]
        final = [stay for stay in final if stay.member in members]
        for label in {got.label for stay in final for got in stay.got if got.service is not Service.UNRELIABLE}:
            lacks = [one.name for one in members if not _has(story, one, label)]
            story.check(not lacks, f"2.17 {group}: {label!r} is not at {lacks}")


def _before(trace: Trace, label: bytes, group: GroupName) -> bool:
    """Whether the session had asked to join the group when it sent this."""
    return group in trace.asked.get(label, ())
