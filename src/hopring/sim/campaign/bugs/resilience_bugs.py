"""Planted bugs of resilient messages."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from hopring.ids import SiteId, SiteMask
from hopring.membership.view import InstalledView
from hopring.ordering.entry import Entry, OrderedMessage
from hopring.ordering.holders import Holders, ViewVotes
from hopring.ordering.order import Order
from hopring.sim.campaign.bugs.planting import Bug, bug

HOLDERS: Final = "hopring.ordering.holders"
Enough = Callable[[Holders, int, SiteMask, int, Mapping[SiteId, int]], bool]


def _one_holder_less(enough: Enough) -> Any:
    def enough_with_k(
        self: Holders, lts: int, mask: SiteMask, resilience: int, stable: Mapping[SiteId, int]
    ) -> bool:
        return enough(self, lts, mask, max(0, resilience - 1), stable)

    return enough_with_k


def _pruned_counts(enough: Enough) -> Any:
    def enough_anywhere(
        self: Holders, lts: int, mask: SiteMask, resilience: int, stable: Mapping[SiteId, int]
    ) -> bool:
        del mask
        everywhere = SiteMask(sum(1 << site for site in self.votes.by_site))
        return enough(self, lts, everywhere, resilience, stable)

    return enough_anywhere


def _mask_not_widened(_widened: Callable[[ViewVotes, SiteMask, int], SiteMask]) -> Any:
    def same_mask(self: ViewVotes, mask: SiteMask, resilience: int) -> SiteMask:
        del self, resilience
        return mask

    return same_mask


def _earlier_not_held(_has_holders: Callable[[Order, Entry, OrderedMessage], bool]) -> Any:
    def has_holders_itself(self: Order, entry: Entry, message: OrderedMessage) -> bool:
        stable = {site: line.stable_lts for site, line in self.lines.items()}
        return self.holders.enough(entry.lts, entry.mask, message.resilience, stable)

    return has_holders_itself


def _line_of_another(learn: Callable[[Holders, SiteId, tuple[int, ...]], None]) -> Any:
    def learn_best(self: Holders, site: SiteId, lines: tuple[int, ...]) -> None:
        learn(self, site, (max(lines),) * len(lines))

    return learn_best


def _never_withheld(mark_delivered: Callable[[InstalledView, list[Entry], bool], Any]) -> Any:
    def mark_all_delivered(view: InstalledView, entries: list[Entry], majority: bool) -> Any:
        del majority
        return mark_delivered(view, entries, True)

    return mark_all_delivered


def _resilient(one: Bug, clients: bool = False) -> Bug:
    """The bug as one that only a world with resilient messages can show."""
    return replace(one, resilient=True, clients=clients)


BUGS: Final[tuple[Bug, ...]] = (
    _resilient(
        bug(
            "one-holder-less",
            "RMP trap 1",
            "k daemons are enough for a message that should survive the loss of k",
            (f"{HOLDERS}:Holders.enough", _one_holder_less),
        )
    ),
    _resilient(
        bug(
            "line-of-another",
            "RMP trap 2",
            "the line of the furthest daemon of a site is taken for that of each",
            (f"{HOLDERS}:Holders.learn", _line_of_another),
        )
    ),
    _resilient(
        bug(
            "majority-anywhere",
            "RMP trap 19",
            "majority messages are delivered where no primary view is",
            ("hopring.membership.message_flow:mark_delivered", _never_withheld),
        )
    ),
    _resilient(
        bug(
            "pruned-counts-as-holder",
            "RMP trap 2",
            "daemons that have only the meta-data of a message count as its holders",
            (f"{HOLDERS}:Holders.enough", _pruned_counts),
            (f"{HOLDERS}:ViewVotes.widened", _mask_not_widened),
        ),
        clients=True,
    ),
    _resilient(
        bug(
            "earlier-not-held",
            "RMP trap 2",
            "a message has its holders, and an earlier one, for other sites, has not",
            ("hopring.ordering.order:Order._has_holders", _earlier_not_held),
        ),
        clients=True,
    ),
)
