"""Views of groups: the views, ids and signals that follow from joins, leaves, ends and changes of network.

Implements  thesis figures 6.18 to 6.22 and 6.24, as far as they make views; definition 6.1 (ids), without its
            collisions.
Invariants  the table is a function of the order and the daemons' views, so daemons that stay together have the
            same; a session in a group has been shown the view whose id is in the table, and a signal since then
            if the group is signalled; between two views of a group there is one signal at most.
            Ids of one group rise at every member (2.3); no id is given twice, to views with other members or
            another past (2.20). Every daemon of a view gives the same ids, whether or not it knows that the
            group's view was closed by a message that was not for its site. So an id of an earlier view counts
            like the one after a change of network; and in a closing view the id depends on the place in the
            order only: the stamp is in the path, the site is the step.
Deviations  every view shown while the daemons' view is closing is closing itself: a signal follows at once, and
            another view when the daemons have theirs. Members that had a signal and meet again are together
            only if their closing paths are equal. A group may close before the daemons' signal, at a rift: the
            table goes on as elsewhere, and the ids shown here diverge from it (`DivergedGroup`). A group that
            loses no member closes too, as soon as an ordered message reaches it behind the signal: daemons that
            did not stay together may have delivered something before it that is missing here.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from hopring.engine import Rift
from hopring.groups.events import Cause, GroupView, LeftGroup, Output, ShowSignal, ShowView
from hopring.groups.exchange import MergedGroup, Origin
from hopring.groups.group_table import GroupEntry, GroupTable
from hopring.groups.minimum import NO_MINIMUM, GroupMinimum, Suspensions
from hopring.groups.names import GroupMember, GroupViewId
from hopring.ids import DaemonId, GroupName, Incarnation, Process, SiteId, ViewId
from hopring.ordering.entry import Position

NETWORK_STEP: Final = 0
"""The step of a view that follows a change of network."""


@dataclass(slots=True)
class ViewNumbering:
    """Assigns ids of group views during one view of the daemons."""

    view: ViewId
    path: tuple[ViewId, ...] = ()
    floor: int = 0  # The highest step of groups that are gone: one that comes back continues above it.

    def close(self, next_view: ViewId) -> None:
        """The daemons' view is closing: ids from here on belong to the side that goes on to this view."""
        self.path = (next_view,)

    @property
    def network(self) -> GroupViewId:
        """The id of group views after a change of network."""
        return GroupViewId(self.view, (), NETWORK_STEP)

    def after(self, last: GroupViewId | None, place: Position) -> GroupViewId:
        """The id after `last`, if the group had one, of a change at this place in the order."""
        if self.path:
            # No view of daemons has counter 0, so this sorts before any view that may follow in a path.
            stamp = ViewId(0, DaemonId(0), Incarnation(place.lts))
            return GroupViewId(self.view, (*self.path, stamp), place.site + 1)
        return GroupViewId(self.view, (), 1 + max(self.floor, self._step(last)))

    def retire(self, last: GroupViewId) -> None:
        """The group has no members any more."""
        self.floor = max(self.floor, self._step(last))

    def _step(self, last: GroupViewId | None) -> int:
        return last.step if last is not None and last.view == self.view else NETWORK_STEP


def parting_id(path: tuple[ViewId, ...], view: ViewId, step: int) -> GroupViewId:
    """The id of a view that separates members with this closing path from others of the same last view.

    Members with other last views may have an equal path, so the step must distinguish them.
    """
    return GroupViewId(path[0], (*path[1:], view), step)


@dataclass(slots=True)
class DivergedGroup:
    """A group that closed here at a rift, before the daemons' signal.

    Daemons outside of the rift's sites continue the group until the signal if one of their sessions joins it
    behind the rift. Their views of it differ from those shown here, so ids here name the rift.
    """

    together: frozenset[Process]
    view: ViewId  # The daemons' closing view; daemons may differ in the id of the group's last view.
    id: GroupViewId  # Of the last view that was shown here.
    next_view: ViewId
    rift: Position
    primary: bool  # Whether the view that closes is primary, and the next one too.

    def step(self) -> None:
        """Advances the id for the next view shown here."""
        # No view of daemons has counter 0, so this sorts before any view that may follow in a path.
        place = ViewId(0, DaemonId(self.rift.site), Incarnation(self.rift.lts))
        # Twice: a joiner elsewhere, where no rift is known, is shown an id with this place once.
        path = (self.next_view, place, place)
        step = self.id.step + 1 if self.id.path == path else 1
        self.id = GroupViewId(self.view, path, step)


@dataclass(slots=True)
class GroupViews:
    """Changes the table of groups, and collects the views and signals for sessions."""

    me: Process
    table: GroupTable
    ids: ViewNumbering
    suspensions: Suspensions
    together: frozenset[Process] | None = None  # TMemb; None while the daemons' view is whole.
    primary: bool = False  # Whether the daemons' view is, as sessions were last shown.
    stays_primary: bool = False  # While it is closing: whether it is primary, and the next one too.
    diverged: dict[GroupName, DivergedGroup] = field(default_factory=dict)  # Groups that closed at a rift.
    out: list[Output] = field(default_factory=list)

    # Changes with a place in the order.

    def join(self, member: GroupMember, name: GroupName, place: Position, minimum: int = NO_MINIMUM) -> None:
        """Adds a member, who comes from no earlier view of the group."""
        group = self.table.groups.get(name)
        before = () if group is None else self._established(group)
        if group is None:
            group = GroupEntry(name, self.ids.after(None, place))
        else:
            group.id = self.ids.after(group.id, place)
        self.table.add(group, member)
        if minimum > 1 and group.minimum is None:
            group.minimum = GroupMinimum()
        if group.minimum is not None:
            group.minimum.find(member)
            if minimum > 1:
                group.minimum.stated[member] = minimum
            self._judge(group)
        if name in self.diverged:
            self.diverged[name].step()
        others = group.local
        if member.process == self.me:
            others = tuple([one for one in group.local if one != member.session])
            self._show((member.session,), group, (member,), Cause.JOIN, member)
        self._show(others, group, before, Cause.JOIN, member)

    def joined(self, name: GroupName) -> None:
        """Completes a join, after the messages that the joiner is owed."""
        self._close_anew(self.table.groups[name])

    def remove(self, member: GroupMember, name: GroupName, cause: Cause, place: Position) -> None:
        """Removes a member that left or ended."""
        group = self.table.groups[name]
        if cause is Cause.LEAVE and member.process == self.me:
            self.out.append(LeftGroup(member.session, name))
        if self.table.remove(group, member):
            self.ids.retire(group.id)
            self.suspensions.update(name, False)
            return
        self._judge(group)
        # Also if its view is closing: a daemon that is not here may have sent in the view that follows this.
        group.id = self.ids.after(group.id, place)
        if name in self.diverged:
            self.diverged[name].step()
        self._show(group.local, group, self._established(group), cause, member)
        self._close_anew(group)

    def _close_anew(self, group: GroupEntry) -> None:
        """Closes a new view at once if the group's or the daemons' view is closing."""
        if group.name in self.diverged:
            self._signal(group)
        if self.together is not None:
            self._close(group)

    def _established(self, group: GroupEntry) -> tuple[GroupMember, ...]:
        aside = self.diverged.get(group.name)
        together = self.together if aside is None else aside.together
        return group.listed() if together is None else group.established(together)

    def _judge(self, group: GroupEntry) -> None:
        """Suspends the group, or lets it go on: by its members, while a view closes by those that stay."""
        minimum = group.minimum
        if minimum is None:
            return
        aside = self.diverged.get(group.name)
        closing = self.together is not None or aside is not None
        primary = self.stays_primary if closing else self.primary
        present = self._established(group)
        met = minimum.is_met(
            len(present), primary if aside is None else aside.primary, len(present) == len(group.members)
        )
        if met and not closing:
            minimum.lost.clear()
            group.minimum = minimum if minimum.stated else None
        group.suspended = not met
        self.suspensions.update(group.name, not met)

    # Changes of the daemons' view.

    def close_early(self, rift: Rift, site_of: Mapping[DaemonId, SiteId]) -> None:
        """Closes the groups at this rift whose members may be owed its bundle.

        These are groups with all their members in the sites of the bundle, so that all members that stay
        together are at this rift too. They close if the bundle is lost, or if it is unstable and they lose
        members.
        """
        together = frozenset(rift.together)
        for group in self.table.in_order():
            if group.name in self.diverged or not (rift.lost or group.breaks(together)):
                continue
            if all(rift.mask >> site_of[one.daemon] & 1 for one in group.members):
                self.diverged[group.name] = DivergedGroup(
                    together, self.ids.view, group.id, rift.next_view, rift.position, rift.primary
                )
                self._judge(group)
                self._signal(group)

    def close(self, together: frozenset[Process], next_view: ViewId, primary: bool) -> None:
        """The daemons' view is closing: closes the groups that lose members."""
        self.ids.close(next_view)
        self.together, self.stays_primary = together, primary
        for group in self.table.in_order():
            if group.breaks(together):
                self._close(group)

    def close_addressed(self, names: Collection[GroupName]) -> None:
        """An ordered message to these groups follows the daemons' signal: closes them."""
        for name in names:
            group = self.table.groups.get(name)
            if group is not None and not group.signalled:
                self._close(group)

    def close_again(self, together: frozenset[Process], left: ViewId, primary: bool = False) -> None:
        """The daemons left a view before its exchange of GROUPS was complete."""
        self.together, self.stays_primary = together, primary
        for group in self.table.in_order():
            if group.closing_path:
                group.closing_path = (*group.closing_path, left)
            elif group.breaks(together):
                self._close(group, left)

    def _close(self, group: GroupEntry, left: ViewId | None = None) -> None:
        group.closing_path = (left or self.ids.view,)
        if group.name not in self.diverged:
            self._judge(group)
            self._signal(group)

    def _signal(self, group: GroupEntry) -> None:
        if group.local:
            shown = self._shown(group), self._established(group)
            self.out.append(
                ShowSignal(group.local, group.name, *shown, group.suspended, group.minimum_in_force)
            )

    def _shown(self, group: GroupEntry) -> GroupViewId:
        aside = self.diverged.get(group.name)
        return group.id if aside is None else aside.id

    def begin(self) -> None:
        """The daemons have a new view: members at other daemons are removed."""
        assert self.together is not None, "a view follows a signal"
        for group in self.table.groups.values():
            if group.minimum is not None:
                group.minimum.lose([one for one in group.members if one.process not in self.together])
        self.table.keep(self.together)
        for name in [one for one in self.suspensions.groups if one not in self.table.groups]:
            self.suspensions.update(name, False)
        self.together = None
        for name, aside in self.diverged.items():
            if name in self.table.groups:
                group = self.table.groups[name]
                group.id, group.closing_path = aside.id, (self.ids.view,)
        self.diverged.clear()

    def begin_unchanged(self, view: ViewId, primary: bool) -> None:
        """A new view without newcomers, in which all know the same: closing groups get their view.

        All groups do if the daemons' view has become primary, or is not any more.
        """
        self.ids = ViewNumbering(view)
        turned, self.primary = self.primary is not primary, primary
        for group in self.table.in_order():
            was_suspended = group.suspended
            self._judge(group)
            if group.closing_path or turned or was_suspended is not group.suspended:
                same = not group.closing_path
                group.closing_path = ()
                group.id = self.ids.network
                members = group.listed()
                self._show(group.local, group, members, Cause.NETWORK, sets=(members,), same=same)

    def compute_notify(
        self, view: ViewId, processes: Collection[Process], merged: Collection[MergedGroup], primary: bool
    ) -> None:
        """All GROUPS have arrived: replaces the table and shows new views; unchanged groups keep theirs."""
        self.ids = ViewNumbering(view)
        self.primary = primary
        for one in merged:
            one.judge(processes, primary)
        fresh = [one for one in merged if one.needs_view(primary)]
        kept = {one.name: next(iter(one.origins)).last for one in merged if not one.needs_view(primary)}
        mine = {
            name: Origin(group.id, group.closing_path)
            for name, group in self.table.groups.items()
            if group.local
        }
        new_id = self.ids.network
        self.table.replace([(one.name, kept.get(one.name, new_id), one.members) for one in merged])
        for name in [one for one in self.suspensions.groups if one not in self.table.groups]:
            self.suspensions.update(name, False)
        for one in merged:
            group = self.table.groups[one.name]
            group.minimum = one.minimum
            self._judge(group)
        for one in fresh:
            if one.name in mine:
                group, origin = self.table.groups[one.name], mine[one.name]
                together = one.together(origin)
                if origin.closing_path and one.is_torn(origin.last):
                    self._show_parting(group, origin, together, one.parting_step(origin))
                same = not one.changed
                self._show(group.local, group, together, Cause.NETWORK, sets=one.sets, same=same)

    def _show_parting(
        self, group: GroupEntry, origin: Origin, together: tuple[GroupMember, ...], step: int
    ) -> None:
        """Shows members of one closing path themselves first, if others of their last view have another one."""
        last = parting_id(origin.closing_path, self.ids.view, step)
        parts = group.name, last, together, together, Cause.NETWORK, None, (together,)
        # By themselves they may be too few, whatever the view that follows at once has.
        suspended = group.minimum is not None and not group.minimum.is_met(len(together), False, False)
        view = GroupView(*parts, self.primary, False, suspended, group.minimum_in_force)
        self.out.append(ShowView(group.local, view))

    def _show(
        self,
        sessions: tuple[int, ...],
        group: GroupEntry,
        together: tuple[GroupMember, ...],
        cause: Cause,
        who: GroupMember | None = None,
        sets: tuple[tuple[GroupMember, ...], ...] = (),
        same: bool = False,
    ) -> None:
        if sessions:
            parts = group.name, self._shown(group), group.listed(), together, cause, who, sets
            view = GroupView(*parts, self.primary, same, group.suspended, group.minimum_in_force)
            self.out.append(ShowView(sessions, view))
