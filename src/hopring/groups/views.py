"""Views of groups: what a join, a leave, an end or a change of network means, and what members are shown.

Implements  thesis figures 6.18 to 6.22 and 6.24, as far as they make views.
Invariants  the table is a function of the order and the daemons' views, so companions have the same; a session
            in a group has been shown the view whose id stands in the table, and a signal since if it is
            signalled; between two views of a group there is one signal at most.
Deviations  whatever is shown while the daemons' view is closing is closing itself: it is followed by a signal
            at once, and by another view when the daemons have theirs. Members that had a signal and meet again
            are companions only if they came the same way. A group may close before the daemons' signal, at a
            rift: the table goes on as elsewhere, and what is shown here goes its own way (`aside`). A group
            that loses nobody closes too, as soon as something in order reaches it behind the signal: those
            who did not come along may have something before it that is missing here.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from hopring.groups.events import Cause, GroupView, LeftGroup, Output, ShowSignal, ShowView
from hopring.groups.exchange import MergedGroup, Origin
from hopring.groups.group_table import GroupEntry, GroupTable
from hopring.groups.names import GroupMember, GroupViewId
from hopring.ids import DaemonId, GroupName, Incarnation, Process, SiteId, ViewId
from hopring.membership.events import Rift
from hopring.ordering.entry import Position

NETWORK_STEP: Final = 0
"""Of the view that a change of network brings."""


@dataclass(slots=True)
class ViewNumbering:
    """Gives out ids in one view of daemons, from when all know the same to its end."""

    view: ViewId
    path: tuple[ViewId, ...] = ()
    floor: int = 0  # No group that is gone had a higher step: it may come back, and must go on above.

    def close(self, next_view: ViewId) -> None:
        """From here on ids belong to those who go on to this view."""
        self.path = (next_view,)

    @property
    def network(self) -> GroupViewId:
        """The id that follows a change of network."""
        return GroupViewId(self.view, (), NETWORK_STEP)

    def after(self, last: GroupViewId | None, place: Position) -> GroupViewId:
        """The id that follows this one of a group, if there was one, by what stands at this place."""
        if self.path:
            # No view of daemons has counter 0, so this stands before whatever may follow on a way.
            stamp = ViewId(0, DaemonId(0), Incarnation(place.lts))
            return GroupViewId(self.view, (*self.path, stamp), place.site + 1)
        return GroupViewId(self.view, (), 1 + max(self.floor, self._step(last)))

    def retire(self, last: GroupViewId) -> None:
        """The group is gone."""
        self.floor = max(self.floor, self._step(last))

    def _step(self, last: GroupViewId | None) -> int:
        return last.step if last is not None and last.view == self.view else NETWORK_STEP


def parting(way: tuple[ViewId, ...], view: ViewId, step: int) -> GroupViewId:
    """The id for those who came this way from a view, to where others came from it another way.

    Members with other last views may have come the same way, so the step has to tell them apart.
    """
    return GroupViewId(way[0], (*way[1:], view), step)


@dataclass(slots=True)
class DivergedGroup:
    """What is shown here of such a group."""

    together: frozenset[Process]
    view: ViewId  # The daemons' that is closing; not all of them know the same id of the group's last view.
    id: GroupViewId  # Of the last view that was shown.
    next_view: ViewId
    rift: Position

    def step(self) -> None:
        """There is another view to show."""
        # No view of daemons has counter 0, so this stands before whatever may follow the next view on a way.
        place = ViewId(0, DaemonId(self.rift.site), Incarnation(self.rift.lts))
        # Twice: who joins from elsewhere, and knows of no rift, is shown an id with one such place.
        path = (self.next_view, place, place)
        step = self.id.step + 1 if self.id.path == path else 1
        self.id = GroupViewId(self.view, path, step)


@dataclass(slots=True)
class GroupViews:
    """The table of groups, the ids of its views, and what is to be shown."""

    me: Process
    table: GroupTable
    ids: ViewNumbering
    together: frozenset[Process] | None = None  # TMemb; None while the daemons' view is whole.
    diverged: dict[GroupName, DivergedGroup] = field(default_factory=dict)  # Groups that closed at a rift.
    out: list[Output] = field(default_factory=list)

    # Changes that have their place in the order.

    def join(self, member: GroupMember, name: GroupName, place: Position) -> None:
        """One more member, who comes from no view."""
        group = self.table.groups.get(name)
        before = () if group is None else self._established(group)
        if group is None:
            group = GroupEntry(name, self.ids.after(None, place))
        else:
            group.id = self.ids.after(group.id, place)
        self.table.add(group, member)
        if name in self.diverged:
            self.diverged[name].step()
        others = group.local
        if member.process == self.me:
            others = tuple([one for one in group.local if one != member.session])
            self._show((member.session,), group, (member,), Cause.JOIN, member)
        self._show(others, group, before, Cause.JOIN, member)

    def joined(self, name: GroupName) -> None:
        """After a join, and after what the joiner is owed."""
        self._close_anew(self.table.groups[name])

    def remove(self, member: GroupMember, name: GroupName, cause: Cause, place: Position) -> None:
        """One member less."""
        group = self.table.groups[name]
        if cause is Cause.LEAVE and member.process == self.me:
            self.out.append(LeftGroup(member.session, name))
        if self.table.remove(group, member):
            self.ids.retire(group.id)
            return
        # Also if its view is closing: somebody who is not here may have sent in the view that this brings.
        group.id = self.ids.after(group.id, place)
        if name in self.diverged:
            self.diverged[name].step()
        self._show(group.local, group, self._established(group), cause, member)
        self._close_anew(group)

    def _close_anew(self, group: GroupEntry) -> None:
        """A view that is made while the one of the group or of the daemons is closing is closing too."""
        if group.name in self.diverged:
            self._signal(group)
        if self.together is not None:
            self._close(group)

    def _established(self, group: GroupEntry) -> tuple[GroupMember, ...]:
        aside = self.diverged.get(group.name)
        together = self.together if aside is None else aside.together
        return group.listed() if together is None else group.established(together)

    # Changes of the daemons' view.

    def close_early(self, rift: Rift, site_of: Mapping[DaemonId, SiteId]) -> None:
        """What stands here may be owed to members of a group only if it is for all the sites that they are in.

        So all of them who come along are at this rift, and close the group here: if what stands here is lost,
        or if it is not stable where members do not come along.
        """
        together = frozenset(rift.together)
        for group in self.table.in_order():
            if group.name in self.diverged or not (rift.lost or group.breaks(together)):
                continue
            if all(rift.mask >> site_of[one.daemon] & 1 for one in group.members):
                self.diverged[group.name] = DivergedGroup(
                    together, self.ids.view, group.id, rift.next_view, rift.position
                )
                self._signal(group)

    def close(self, together: frozenset[Process], next_view: ViewId) -> None:
        """The daemons' view is closing: so are those of the groups that lose members by it."""
        self.ids.close(next_view)
        self.together = together
        for group in self.table.in_order():
            if group.breaks(together):
                self._close(group)

    def touch(self, names: Collection[GroupName]) -> None:
        """Something in order comes for these groups, behind the daemons' signal."""
        for name in names:
            group = self.table.groups.get(name)
            if group is not None and not group.signalled:
                self._close(group)

    def close_again(self, together: frozenset[Process], left: ViewId) -> None:
        """The daemons had another view, and left it before all had told of their groups."""
        self.together = together
        for group in self.table.in_order():
            if group.closing_path:
                group.closing_path = (*group.closing_path, left)
            elif group.breaks(together):
                self._close(group, left)

    def _close(self, group: GroupEntry, left: ViewId | None = None) -> None:
        group.closing_path = (left or self.ids.view,)
        if group.name not in self.diverged:
            self._signal(group)

    def _signal(self, group: GroupEntry) -> None:
        if group.local:
            self.out.append(ShowSignal(group.local, group.name, self._shown(group), self._established(group)))

    def _shown(self, group: GroupEntry) -> GroupViewId:
        aside = self.diverged.get(group.name)
        return group.id if aside is None else aside.id

    def begin(self) -> None:
        """The daemons have a new view; who did not come along is gone."""
        assert self.together is not None, "a view follows a signal"
        self.table.keep(self.together)
        self.together = None
        for name, aside in self.diverged.items():
            if name in self.table.groups:
                group = self.table.groups[name]
                group.id, group.closing_path = aside.id, (self.ids.view,)
        self.diverged.clear()

    def go_on(self, view: ViewId) -> None:
        """Nobody new came, and all are here: they know the same."""
        self.ids = ViewNumbering(view)
        for group in self.table.in_order():
            if group.closing_path:
                group.closing_path = ()
                group.id = self.ids.network
                members = group.listed()
                self._show(group.local, group, members, Cause.NETWORK, sets=(members,))

    def compute_notify(self, view: ViewId, merged: Collection[MergedGroup]) -> None:
        """All daemons have told of their groups; a group that nothing happened to keeps its view."""
        self.ids = ViewNumbering(view)
        mine = {
            name: Origin(group.id, group.closing_path)
            for name, group in self.table.groups.items()
            if group.local
        }
        new_id = self.ids.network
        self.table.replace(
            [(one.name, new_id if one.changed else next(iter(one.origins)).last, one.members) for one in merged]
        )
        for one in merged:
            if one.changed and one.name in mine:
                group, origin = self.table.groups[one.name], mine[one.name]
                together = one.together(origin)
                if origin.closing_path and one.is_torn(origin.last):
                    self._part(group, origin, together, one.parting_step(origin))
                self._show(group.local, group, together, Cause.NETWORK, sets=one.sets)

    def _part(self, group: GroupEntry, origin: Origin, together: tuple[GroupMember, ...], step: int) -> None:
        """Others come from the same view another way; those who came this way see each other first."""
        last = parting(origin.closing_path, self.ids.view, step)
        view = GroupView(group.name, last, together, together, Cause.NETWORK, None, (together,))
        self.out.append(ShowView(group.local, view))

    def _show(
        self,
        sessions: tuple[int, ...],
        group: GroupEntry,
        together: tuple[GroupMember, ...],
        cause: Cause,
        who: GroupMember | None = None,
        sets: tuple[tuple[GroupMember, ...], ...] = (),
    ) -> None:
        if sessions:
            view = GroupView(group.name, self._shown(group), group.listed(), together, cause, who, sets)
            self.out.append(ShowView(sessions, view))
