"""Planted bugs of groups: views and signals, the exchange of GROUPS, requests, interest, early messages."""

from collections.abc import Callable
from typing import Any, Final

from hopring.engine import Rift, SubmitMessage, TransitionalSignal
from hopring.groups.delivery import EarlyMessages, Gets, GroupDelivery
from hopring.groups.events import DeliverBundle, Input, JoinGroup, LeaveGroup, Send
from hopring.groups.exchange import GroupsExchange, MergedGroup, Origin
from hopring.groups.groups import NO_VIEW, Groups, GroupsState
from hopring.groups.interest import InterestTable
from hopring.groups.messages import GroupInterest
from hopring.groups.names import GroupMember, GroupViewId
from hopring.groups.requests import Requests
from hopring.groups.views import GroupViews
from hopring.ids import DaemonId, GroupName, Process, ViewId
from hopring.membership.message_flow import MessageFlow
from hopring.ordering.entry import OrderedMessage, Position
from hopring.sim.campaign.bugs.planting import Bug, client_bug


def _by_last_view(together: Callable[[MergedGroup, Origin], tuple[GroupMember, ...]]) -> Any:
    del together

    def from_the_same_view(self: MergedGroup, origin: Origin) -> tuple[GroupMember, ...]:
        alike = [members for one, members in self.origins.items() if one.last == origin.last]
        return tuple(sorted([one for members in alike for one in members]))

    return from_the_same_view


def _never_torn(is_torn: Callable[[MergedGroup, GroupViewId], bool]) -> Any:
    del is_torn
    return lambda _self, _last: False


def _all_alike(together: Callable[[MergedGroup, Origin], tuple[GroupMember, ...]]) -> Any:
    del together
    return lambda self, _origin: tuple(sorted(self.members))


def _without_side(close: Callable[[GroupViews, frozenset[Process], ViewId, bool], None]) -> Any:
    return lambda self, together, _next_view, primary: close(self, together, NO_VIEW, primary)


def _nothing_retired(retire: Callable[..., None]) -> Any:
    del retire
    return lambda _self, _last: None


def _at_once(signalled: Callable[[Groups, TransitionalSignal], None]) -> Any:
    def signal_goes_on(self: Groups, event: TransitionalSignal) -> None:
        if self.state is not GroupsState.GGATHER:
            signalled(self, event)
            return
        self._signal = event
        self.state = GroupsState.GGT
        assert self.view is not None
        self.views.close_again(frozenset(event.together), self.view)

    return signal_goes_on


def _not_closed(joined: Callable[[GroupViews, GroupName], None]) -> Any:
    del joined
    return lambda _self, _name: None


def _one_part(complete: property) -> Any:
    del complete

    def first_parts(self: GroupsExchange) -> bool:
        return len(self.parts) == len(self.members)

    return property(first_parts)


def _by_origin_alone(changed: property) -> Any:
    del changed

    def last_views_differ(self: MergedGroup) -> bool:
        return len({one.last for one in self.origins}) > 1

    return property(last_views_differ)


def _never_held(begin: Callable[[MessageFlow, Any, int], None]) -> Any:
    def begin_and_go_on(self: MessageFlow, options: Any, sites: int) -> None:
        begin(self, options, sites)
        self.window.held = False

    return begin_and_go_on


def _only_in_gop(handle: Callable[[Groups, Input, int], None]) -> Any:
    def drop_while_closing(self: Groups, event: Input, now_us: int) -> None:
        if self.state is GroupsState.GOP or not isinstance(event, Send | JoinGroup | LeaveGroup):
            handle(self, event, now_us)

    return drop_while_closing


def _all_kept(keep: Callable[..., None]) -> Any:
    del keep
    return lambda _self, _together: None


def _for_each_group(recipients: Callable[[GroupDelivery, tuple[GroupName, ...]], tuple[int, ...]]) -> Any:
    def one_by_one(self: GroupDelivery, groups: tuple[GroupName, ...]) -> tuple[int, ...]:
        return tuple([one for group in groups for one in recipients(self, (group,))])

    return one_by_one


def _all_of_it(split_mixed: Callable[[GroupDelivery, DeliverBundle], list[DeliverBundle]]) -> Any:
    del split_mixed
    return lambda _self, deliver: [deliver]


def _as_in_one_site(
    next_submission: Callable[[Requests, bool, bool, bool], GroupInterest | SubmitMessage | None],
) -> Any:
    return lambda self, _one_site, queue_open, bulk_open: next_submission(self, True, queue_open, bulk_open)


def _deaf(heard: Callable[[InterestTable, OrderedMessage], None]) -> Any:
    del heard
    return lambda _self, _message: None


def _for_the_site(apply: Callable[[InterestTable, DaemonId, GroupInterest], None]) -> Any:
    def whoever_speaks_last(self: InterestTable, daemon: DaemonId, interest: GroupInterest) -> None:
        apply(self, daemon, interest)
        site = self._site_of[daemon]
        for group in interest.off:
            said = self._versions.get(GroupName(group), {})
            for one in [other for other in said if self._site_of[other] == site]:
                said[one] = -abs(said[one])

    return whoever_speaks_last


def _nothing_owed(release: Callable[[EarlyMessages, Position, Gets], list[DeliverBundle]]) -> Any:
    def forget(self: EarlyMessages, at: Position, gets: Gets) -> list[DeliverBundle]:
        release(self, at, gets)
        return []

    return forget


def _never_behind(behind: Callable[[EarlyMessages, int, DeliverBundle], bool]) -> Any:
    del behind
    return lambda _self, _session, _deliver: False


def _though_joining(mark_if_idle: Callable[[Requests, GroupName, int], None]) -> Any:
    del mark_if_idle
    return lambda self, group, now_us: self.own.idle(group, now_us)


def _past_it(rift: Callable[[Groups, Rift], None]) -> Any:
    del rift
    return lambda _self, _event: None


BUGS: Final[tuple[Bug, ...]] = (
    client_bug(
        "ways-ignored",
        "property 2.4",
        "after losses on both sides, members with the same last view count as together, whatever way they came",
        ("hopring.groups.exchange:MergedGroup.together", _by_last_view),
        ("hopring.groups.exchange:MergedGroup.is_torn", _never_torn),
    ),
    client_bug(
        "parting-not-shown",
        "property 2.4",
        "members who left one view different ways meet again without having seen that they had parted",
        ("hopring.groups.exchange:MergedGroup.is_torn", _never_torn),
    ),
    client_bug(
        "group-together-with-all",
        "property 2.4",
        "after a merge the transitional set of a group is all its members",
        ("hopring.groups.exchange:MergedGroup.together", _all_alike),
    ),
    client_bug(
        "sides-share-ids",
        "rule 69",
        "the views of both sides of a split between signal and view can have the same id",
        ("hopring.groups.views:GroupViews.close", _without_side),
    ),
    client_bug(
        "group-begins-anew",
        "property 2.3",
        "a group that comes back in the same view of daemons begins with its first id again",
        ("hopring.groups.views:ViewNumbering.retire", _nothing_retired),
    ),
    client_bug(
        "signal-in-ggather",
        "property 2.8",
        "a signal is passed on at once, though it is not known whether the views of GROUPS come before it",
        ("hopring.groups.groups:Groups._signalled", _at_once),
    ),
    client_bug(
        "closing-unsignalled",
        "property 2.8",
        "a view that a join brings after the daemons' signal is not closed by a signal of its own",
        ("hopring.groups.views:GroupViews.joined", _not_closed),
    ),
    client_bug(
        "first-part-enough",
        "rule 68",
        "a daemon's GROUPS counts as complete with its first part",
        ("hopring.groups.exchange:GroupsExchange.complete", _one_part),
    ),
    client_bug(
        "signal-without-view",
        "property 2.7",
        "a group whose members all come from one view gets no new one, though it had a signal",
        ("hopring.groups.exchange:MergedGroup.changed", _by_origin_alone),
    ),
    client_bug(
        "clients-not-held",
        "rule 57",
        "clients' messages go out in a new view before all daemons have told of their groups",
        ("hopring.membership.message_flow:MessageFlow.begin", _never_held),
    ),
    client_bug(
        "request-lost",
        "property 2.15",
        "requests of a session while the daemons change their view are lost",
        ("hopring.groups.groups:Groups._handle", _only_in_gop),
    ),
    client_bug(
        "lost-members-kept",
        "property 2.16",
        "members at daemons that did not come along stay in the lists",
        ("hopring.groups.group_table:GroupTable.keep", _all_kept),
    ),
    client_bug(
        "once-for-each-group",
        "property 2.5",
        "a session gets a message once for each of its groups that it was sent to",
        ("hopring.groups.delivery:GroupDelivery._recipients", _for_each_group),
    ),
    client_bug(
        "mixed-not-sorted",
        "property 2.1",
        "a member of one group of a mixed bundle gets the messages to its other groups too",
        ("hopring.groups.delivery:GroupDelivery._split_mixed", _all_of_it),
    ),
    client_bug(
        "join-unannounced",
        "rule 20",
        "a join is sent before others know of the interest, and they prune messages that the joiner is owed",
        ("hopring.groups.requests:Requests.next_submission", _as_in_one_site),
    ),
    client_bug(
        "interest-on-delivery",
        "rule 22",
        "interest counts from its delivery, not from its receipt",
        ("hopring.groups.interest:InterestTable.heard", _deaf),
    ),
    client_bug(
        "interest-per-site",
        "rule 19",
        "interest is kept per site: when one daemon loses it, so do its neighbours",
        ("hopring.groups.interest:InterestTable._apply", _for_the_site),
    ),
    client_bug(
        "early-missed",
        "rule 28",
        "a Reliable message that overtakes a join is not kept for the joiner",
        ("hopring.groups.delivery:EarlyMessages.release", _nothing_owed),
    ),
    client_bug(
        "fifo-passes-early",
        "rules 28 and 58",
        "a FIFO message passes one of the same sender that a joiner is still owed",
        ("hopring.groups.delivery:EarlyMessages._behind", _never_behind),
    ),
    client_bug(
        "idle-while-joining",
        "rule 23",
        "interest is called off after a leave, though a join is under way",
        ("hopring.groups.requests:Requests.mark_if_idle", _though_joining),
    ),
    client_bug(
        "rift-ignored",
        "rule 31 with pruning",
        "a message that some skip, because it is not for their sites, moves the signal of its receivers",
        ("hopring.groups.groups:Groups._rift", _past_it),
    ),
)
