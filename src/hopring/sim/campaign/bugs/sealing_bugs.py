"""Planted bugs of sealed worlds: of the sealing, and of the bounds that limit a faulty daemon with the key.

The sealing: replay, and the challenge to unknown processes. The bounds: bundles in a daemon's own name, and
promises.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from hopring.errors import Drop, PeerError
from hopring.ids import SiteId
from hopring.membership.events import Output
from hopring.membership.message_flow import MessageFlow
from hopring.membership.view import InstalledView
from hopring.ordering.order import Order
from hopring.sealing.replay import ReplayWindow
from hopring.sealing.sealing import Sealing
from hopring.sim.campaign.bugs.planting import Bug, bug
from hopring.stack_events import Receive


def _replay_taken(is_new: Callable[[ReplayWindow, int], bool]) -> Any:
    del is_new

    def is_new_always(self: ReplayWindow, counter: int) -> bool:
        del self, counter
        return True

    return is_new_always


def _challenge_skipped(challenge: Callable[[Sealing, Any, int], None]) -> Any:
    del challenge

    def meet_at_once(self: Sealing, origin: Any, now_us: int) -> None:
        self._meet(origin.process, 0, now_us)
        raise PeerError(Drop.UNMET, "met without a challenge")

    return meet_at_once


def _own_bundle_believed(receive: Callable[[MessageFlow, InstalledView, Receive, int], list[Output]]) -> Any:
    def receive_any(self: MessageFlow, view: InstalledView, received: Receive, now_us: int) -> list[Output]:
        return receive(self, view, received.replace(own=True), now_us)

    return receive_any


def _promise_unbounded(promise: Callable[[Order, SiteId, int, int], None]) -> Any:
    def promise_any(self: Order, site: SiteId, seq: int, lts: int) -> None:
        if site not in self.lines:
            promise(self, site, seq, lts)
        self.clock = max(self.clock, lts - 1)
        self.lines[site].promise(seq, lts)
        self._draw_line()

    return promise_any


def _sealed(one: Bug) -> Bug:
    return replace(one, sealed=True)


SEALING: Final = "hopring.sealing"
BUGS: Final = (
    _sealed(
        bug(
            "replay-taken",
            "property I12",
            "a packet that was opened before is opened again",
            (f"{SEALING}.replay:ReplayWindow.is_new", _replay_taken),
        )
    ),
    _sealed(
        bug(
            "challenge-skipped",
            "property I12",
            "a process that was not met before is believed at its first packet",
            (f"{SEALING}.sealing:Sealing._challenge", _challenge_skipped),
        )
    ),
    _sealed(
        bug(
            "own-bundle-believed",
            "property I5",
            "a bundle in a daemon's own name counts as its own, although the daemon did not send it",
            ("hopring.membership.message_flow:MessageFlow.receive", _own_bundle_believed),
        )
    ),
    _sealed(
        bug(
            "promise-unbounded",
            "property I7",
            "a promise counts, however far its stamp is ahead of all bundles in flight",
            ("hopring.ordering.order:Order.promise", _promise_unbounded),
        )
    ),
)
