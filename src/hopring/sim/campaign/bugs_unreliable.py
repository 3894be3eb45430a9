"""Planted bugs of the Unreliable service: its numbering, and the view that a message belongs to."""

from collections.abc import Callable
from typing import Any, Final

from hopring.membership.membership import Membership
from hopring.ordering.unreliable import Numbers
from hopring.sim.campaign.bugs import Bug, bug
from hopring.stack_events import ReceiveLoose


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


BUGS: Final[tuple[Bug, ...]] = (
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
