"""Planted bugs of the membership: recovery, view ids, installation, and Unreliable messages."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from hopring.ids import DaemonId, Incarnation, SiteId, ViewId
from hopring.membership.current_network import LocalDaemon
from hopring.membership.events import Input, Output
from hopring.membership.measuring import Measuring
from hopring.membership.membership import Membership
from hopring.membership.messages import LinkWeight, NewMemb, RecoveryMessage, StateTrans
from hopring.membership.options import MembershipOptions
from hopring.membership.recovery import Decision, Key
from hopring.membership.view import InstalledView, ViewAttempt
from hopring.membership.view_counter import ViewCounter
from hopring.ordering.destinations import Destinations
from hopring.ordering.entry import Entry, Position, decode_message
from hopring.ordering.unreliable import Numbers
from hopring.routing.trees import Topology
from hopring.routing.weights import smoothed_weight
from hopring.sim.campaign.bugs.planting import Bug, bug
from hopring.stack_events import PacketReceived, Receive, ReceiveLoose, StackOptions

Decide = Callable[[Iterable[StateTrans], ViewId, Mapping[DaemonId, SiteId]], Decision]


def _changed(change: Callable[[Decision, list[StateTrans]], Decision]) -> Callable[[Decide], Any]:
    """A bug that changes what was decided."""

    def make(decide: Decide) -> Any:
        def decide_wrongly(
            states: Iterable[StateTrans], installed: ViewId, site_of: Mapping[DaemonId, SiteId]
        ) -> Decision:
            told = list(states)
            return change(decide(told, installed, site_of), told)

        return decide_wrongly

    return make


def _delivered_line_missing(decision: Decision, _told: list[StateTrans]) -> Decision:
    return replace(decision, delivered=Position(0, -1))


def _together_with_all(decision: Decision, told: list[StateTrans]) -> Decision:
    return replace(decision, together=tuple(sorted(state.sender for state in told)))


def _foreign_state_counted(decide: Decide) -> Any:
    def decide_by_all(
        states: Iterable[StateTrans], installed: ViewId, site_of: Mapping[DaemonId, SiteId]
    ) -> Decision:
        told = list(states)
        aru = max(state.aru for state in told)
        return decide([msgspec.structs.replace(state, aru=aru) for state in told], installed, site_of)

    return decide_by_all


def _reliable_skipped(after: Callable[[InstalledView, Decision], list[Entry]]) -> Any:
    def after_without_exemption(self: InstalledView, decision: Decision) -> list[Entry]:
        return [
            entry
            for entry in after(self, decision)
            if entry.seq <= decision.promised[entry.source]
            or (entry.message and self.processes.get(entry.message.daemon) in decision.commit)
        ]

    return after_without_exemption


def _companions_skipped(decision: Decision, _told: list[StateTrans]) -> Decision:
    return replace(decision, commit=frozenset())


def _holes_in_store(break_up: Callable[[InstalledView], None]) -> Any:
    def break_up_and_fill(self: InstalledView) -> None:
        break_up(self)
        for line in self.order.lines.values():
            for seq in range(line.cseq + 1, line.highest + 1):
                if not line.holds(seq):
                    line.hold(seq, line.next_lts)

    return break_up_and_fill


def _dummies_kept(advance: Callable[[ViewAttempt], list[RecoveryMessage]]) -> Any:
    def advance_with_dummies(self: ViewAttempt) -> list[RecoveryMessage]:
        out = advance(self)
        decision = self.decision
        gaps = () if decision is None else decision.gaps
        unknown = [(gap.site, seq) for gap in gaps for seq in range(gap.first, gap.last + 1)]
        for site, seq in sorted([*(() if decision is None else decision.holes), *unknown]):
            line = self.old.order.lines[site]
            if not line.holds(seq):
                line.hold(seq, line.next_lts)
        return out

    return advance_with_dummies


def _keep_old_network(leave: Callable[[Membership, int], None]) -> Any:
    def leave_ajar(self: Membership, now_us: int) -> None:
        if self.stack is not None and not self.view.broken:
            vars(self)["planted_network"] = self.stack
        leave(self, now_us)

    return leave_ajar


def _old_packet_taken(step: Callable[[Membership, Input, int], list[Output]]) -> Any:
    def step_with_old_packets(self: Membership, event: Input, now_us: int) -> list[Output]:
        old = vars(self).get("planted_network")
        if old is not None and self.view.broken and isinstance(event, PacketReceived):
            # The old network refuses packets of any other by itself.
            for output in old.step(event, now_us):
                if isinstance(output, Receive) and output.bundle is not None:
                    self.view.order.recover(output.meta(), decode_message(output.bundle))
        return step(self, event, now_us)

    return step_with_old_packets


def _commit_forgotten(break_up: Callable[[InstalledView], None]) -> Any:
    def break_up_anew(self: InstalledView) -> None:
        break_up(self)
        self.commit = frozenset([self.me])

    return break_up_anew


def _line_forgotten(bind: Callable[[InstalledView, Decision], None]) -> Any:
    def bind_without_line(self: InstalledView, decision: Decision) -> None:
        bound = dict(self.bound)  # As it was: `bind` changes it in its place.
        bind(self, decision)
        self.bound = bound

    return bind_without_line


def _done_too_soon(lacks: Callable[..., bool]) -> Any:
    del lacks
    return lambda *_args: False


def _last_not_resent(resends: Callable[..., list[tuple[Key, bool]]]) -> Any:
    return lambda *args: resends(*args)[:-1]


def _counts_from_zero(init: Callable[..., None]) -> Any:
    def init_without_counter(
        self: Membership,
        who: LocalDaemon,
        counter: int,
        now_us: int,
        options: MembershipOptions,
        stack: StackOptions,
        destinations: Destinations | None = None,
        clock: int = 0,
    ) -> None:
        del counter
        init(self, who, 0, now_us, options, stack, destinations, clock)

    return init_without_counter


def _without_incarnation(view_id: type[ViewId]) -> Any:
    return lambda counter, representative, _nonce: view_id(counter, representative, Incarnation(0))


def _counter_not_raised(heard: Callable[[ViewCounter, int, bool, int], None]) -> Any:
    def only_the_next(self: ViewCounter, claimed: int, met: bool, now_us: int) -> None:
        if claimed == self.value + 1:
            heard(self, claimed, met, now_us)

    return only_the_next


def _old_newmemb(newmemb: Callable[[Membership, NewMemb, int], None]) -> Any:
    def newmemb_again(self: Membership, message: NewMemb, now_us: int) -> None:
        # Only once for each attempt, or daemons that pass it on to each other would never come to an end.
        if message.view == self.highest and vars(self).get("planted_again") != message.view:
            vars(self)["planted_again"] = message.view
            self.highest = ViewId(0, self.local.me.daemon, self.local.me.incarnation)
        newmemb(self, message, now_us)

    return newmemb_again


def _early_data_dropped(early: Callable[..., None]) -> Any:
    del early
    return lambda _self, _output, _now_us: None


def _installs_alone(complete: property) -> Any:
    del complete

    def complete_without_the_others(self: ViewAttempt) -> bool:
        return self.decision is not None and self.bound

    return property(complete_without_the_others)


def _clock_reset(clock: property) -> Any:
    del clock
    return property(lambda _self: 0)


def _own_weights(begin: Callable[[Measuring, Iterable[LinkWeight]], Topology]) -> Any:
    def begin_with_own(self: Measuring, weights: Iterable[LinkWeight]) -> Topology:
        measures = {ends: self.measure_of(ends) for ends in self.links}
        own = {
            ends: smoothed_weight(None, measure) for ends, measure in measures.items() if measure is not None
        }
        given = {(SiteId(one), SiteId(other)): weight for one, other, weight in weights}
        return begin(self, [(*ends, weight) for ends, weight in (given | own).items()])

    return begin_with_own


def _never_dealt_with(dealt_with: Callable[[Numbers, int], bool]) -> Any:
    del dealt_with
    return lambda _self, _number: False


def _kept_for_the_next(receive_loose: Callable[[Membership, ReceiveLoose, int], None]) -> Any:
    def receive_the_one_before(self: Membership, received: ReceiveLoose, now_us: int) -> None:
        if received.daemon == self.local.me.daemon:
            receive_loose(self, received, now_us)
            return
        before, vars(self)["planted_kept"] = vars(self).get("planted_kept"), received
        if before is not None and before.daemon in self.view.processes:
            receive_loose(self, before, now_us)

    return receive_the_one_before


DECIDE: Final = "hopring.membership.view:decide"
VIEW: Final = "hopring.membership.view:InstalledView"
MEMBERSHIP: Final = "hopring.membership.membership:Membership"
ATTEMPT: Final = "hopring.membership.view:ViewAttempt"

BUGS: Final[tuple[Bug, ...]] = (
    bug(
        "delivered-line-missing",
        "rule 31",
        "no daemon reports how far it had delivered, so the signal comes at different places of the order",
        (DECIDE, _changed(_delivered_line_missing)),
    ),
    bug(
        "reliable-skipped",
        "rule 33",
        "behind a hole Reliable and FIFO messages are skipped too, which others delivered early",
        (f"{VIEW}.after_signal", _reliable_skipped),
    ),
    bug(
        "holes-in-store",
        "rule 34",
        "when its view breaks, a daemon closes its gaps with dummies, and reports messages that it lacks",
        (f"{VIEW}.break_up", _holes_in_store),
    ),
    bug(
        "dummies-kept",
        "rule 34",
        "the dummies of an attempt's holes enter the store, and stay there when the attempt fails",
        ("hopring.membership.view:ViewAttempt.advance", _dummies_kept),
    ),
    bug(
        "companions-skipped",
        "rule 30i",
        "behind a hole, messages of those who stay together are skipped too",
        (DECIDE, _changed(_companions_skipped)),
    ),
    bug(
        "old-packet-taken",
        "rule 30b",
        "a packet of the old view is accepted after the state was reported",
        (f"{MEMBERSHIP}._leave_view", _keep_old_network),
        (f"{MEMBERSHIP}.step", _old_packet_taken),
    ),
    bug(
        "commit-forgotten",
        "rule 30j, trap 23",
        "a failed attempt resets the commit set",
        (f"{VIEW}.break_up", _commit_forgotten),
    ),
    bug(
        "line-forgotten",
        "rule 32",
        "a daemon that is bound by a decision does not remember how far it reached",
        (f"{VIEW}.bind", _line_forgotten),
    ),
    bug(
        "foreign-state-counted",
        "rule 30c, trap 18",
        "the stability line of members that come from another view counts",
        (DECIDE, _foreign_state_counted),
    ),
    bug(
        "done-too-soon",
        "rule 30j",
        "a daemon says that it is done before it has the bundles that are sent again",
        (f"{VIEW}.lacks", _done_too_soon),
    ),
    bug(
        "last-not-resent",
        "rule 30g",
        "of the bundles to send again, each daemon leaves out the last",
        ("hopring.membership.recovery:Decision.resends", _last_not_resent),
    ),
    bug(
        "together-with-all",
        "property 2.4",
        "the transitional set is the whole new view",
        (DECIDE, _changed(_together_with_all)),
    ),
    bug(
        "view-id-reused",
        "rule 38, traps 21 and 22",
        "a restarted daemon counts views from zero, and its incarnation is not in their ids",
        (f"{MEMBERSHIP}.__init__", _counts_from_zero),
        ("hopring.membership.membership:ViewId", _without_incarnation),
    ),
    bug(
        "counter-not-raised",
        "rule 39",
        "the view counters of others are ignored",
        ("hopring.membership.view_counter:ViewCounter.heard", _counter_not_raised),
    ),
    bug(
        "old-newmemb",
        "trap 17",
        "a NEWMEMB that comes again is taken for a new one",
        (f"{MEMBERSHIP}._newmemb", _old_newmemb),
    ),
    bug(
        "early-data-dropped",
        "rule 36, trap 31",
        "data of the new view that comes before its installation is dropped",
        (f"{MEMBERSHIP}._install_by_data", _early_data_dropped),
    ),
    bug(
        "installs-alone",
        "rule 30k",
        "a daemon installs the view as soon as it is done itself",
        (f"{ATTEMPT}.complete", _installs_alone),
    ),
    bug(
        "clock-reset",
        "rule 8",
        "a new view starts its stamps at zero",
        (f"{ATTEMPT}.clock", _clock_reset),
    ),
    bug(
        "own-weights",
        "property 2.22",
        "a daemon routes by the weights it measured itself, where it has any, not by those of NEWMEMB",
        ("hopring.membership.measuring:Measuring.begin", _own_weights),
    ),
    bug(
        "unreliable-twice",
        "rule 54",
        "a duplicate of an Unreliable message is not known by its number, and delivered again",
        ("hopring.ordering.unreliable:Numbers.dealt_with", _never_dealt_with),
    ),
    bug(
        "unreliable-late",
        "rule 57",
        "an Unreliable message waits for company, and is delivered in whatever view there is then",
        ("hopring.membership.membership:Membership._receive_loose", _kept_for_the_next),
    ),
)
