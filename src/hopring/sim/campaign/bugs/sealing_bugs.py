"""Planted bugs of the sealing between daemons: replay, and the challenge to unknown processes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from hopring.errors import Drop, PeerError
from hopring.ids import Process
from hopring.sealing.packet import SealedHead
from hopring.sealing.replay import ReplayWindow
from hopring.sealing.sealing import Sealing
from hopring.sim.campaign.bugs.planting import Bug, bug


def _replay_taken(is_new: Callable[[ReplayWindow, int], bool]) -> Any:
    del is_new

    def is_new_always(self: ReplayWindow, counter: int) -> bool:
        del self, counter
        return True

    return is_new_always


def _challenge_skipped(challenge: Callable[[Sealing, SealedHead, Process, int], None]) -> Any:
    del challenge

    def meet_at_once(self: Sealing, head: SealedHead, process: Process, now_us: int) -> None:
        self._meet(process, head.counter, now_us)
        raise PeerError(Drop.UNMET, "met without a challenge")

    return meet_at_once


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
)
