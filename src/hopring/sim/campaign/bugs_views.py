"""Planted bugs of the membership: view ids, NEWMEMB, and the moment of installation."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from hopring.ids import Incarnation, SiteId, ViewId
from hopring.membership.current_network import LocalDaemon
from hopring.membership.measuring import Measuring
from hopring.membership.membership import Membership
from hopring.membership.messages import LinkWeight, NewMemb
from hopring.membership.options import MembershipOptions
from hopring.membership.view_attempt import ViewAttempt
from hopring.ordering.destinations import Destinations
from hopring.routing.topology import Topology
from hopring.routing.weights import settled
from hopring.sim.campaign.bugs import Bug, bug
from hopring.stack_events import StackOptions


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


def _counter_not_raised(counter: Callable[[Membership, int], None]) -> Any:
    def count_only_own(self: Membership, heard: int) -> None:
        if heard == self.counter + 1:
            counter(self, heard)

    return count_only_own


def _old_newmemb(newmemb: Callable[[Membership, NewMemb, int], None]) -> Any:
    def newmemb_again(self: Membership, word: NewMemb, now_us: int) -> None:
        # Only once for each attempt, or daemons that pass it on to each other would never come to an end.
        if word.view == self.highest and vars(self).get("planted_again") != word.view:
            vars(self)["planted_again"] = word.view
            self.highest = ViewId(0, self.local.me.daemon, self.local.me.incarnation)
        newmemb(self, word, now_us)

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
        own = {ends: settled(None, measure) for ends, measure in measures.items() if measure is not None}
        given = {(SiteId(one), SiteId(other)): weight for one, other, weight in weights}
        return begin(self, [(*ends, weight) for ends, weight in (given | own).items()])

    return begin_with_own


ATTEMPT: Final = "hopring.membership.view_attempt:ViewAttempt"
MEMBERSHIP: Final = "hopring.membership.membership:Membership"

BUGS: Final[tuple[Bug, ...]] = (
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
        "the view counters of others are not heeded",
        (f"{MEMBERSHIP}._counter", _counter_not_raised),
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
        (f"{MEMBERSHIP}._early", _early_data_dropped),
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
)
