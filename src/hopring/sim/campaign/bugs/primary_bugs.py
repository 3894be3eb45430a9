"""Planted bugs of primary views."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import structs

from hopring.ids import DaemonId, Process, ViewId
from hopring.membership.messages import EpochMark, PrimaryVote, VotedView
from hopring.membership.primary import Electorate, Judgement, PrimaryVoter
from hopring.sim.campaign.bugs.planting import Bug, bug

PRIMARY: Final = "hopring.membership.primary"
Judge = Callable[[Mapping[Process, PrimaryVote], Electorate], Judgement]
HasMajority = Callable[[VotedView, tuple[Process, ...], Electorate], bool]
Bind = Callable[[PrimaryVoter, Judgement, ViewId], None]


def _names_vote(_has_majority: HasMajority) -> Any:
    def has_majority_by_name(view: VotedView, voters: tuple[Process, ...], electorate: Electorate) -> bool:
        present: set[DaemonId] = {one.daemon for one in voters}
        return electorate.has_majority(
            [one.daemon for one in view.voters if one.daemon in present], [one.daemon for one in view.voters]
        )

    return has_majority_by_name


def _attempt_forgotten(bind: Bind) -> Any:
    def bind_without_attempt(self: PrimaryVoter, judgement: Judgement, view: ViewId) -> None:
        bind(self, judgement, view)
        self.vote = structs.replace(self.vote, attempts=())

    return bind_without_attempt


def _half_is_enough(_has_majority: Callable[..., bool]) -> Any:
    def has_half(self: Electorate, some: list[DaemonId], of: list[DaemonId]) -> bool:
        del self
        return 2 * len(some) >= len(of)

    return has_half


def _mark_forgotten(init: Callable[..., None]) -> Any:
    def start_unmarked(
        self: PrimaryVoter, electorate: Electorate, marked: bool, mark: EpochMark | None, has_disk: bool
    ) -> None:
        init(self, electorate, marked, mark, has_disk)
        self.vote = structs.replace(self.vote, marked=False)

    return start_unmarked


BUGS: Final[tuple[Bug, ...]] = (
    bug(
        "names-vote",
        "RMP trap 32",
        "a daemon that was restarted votes for what it has forgotten",
        (f"{PRIMARY}:_has_majority_of", _names_vote),
    ),
    bug(
        "attempt-forgotten",
        "RMP trap 14",
        "a daemon that said DONE, and heard nothing more, does not count the primary that may have followed",
        (f"{PRIMARY}:PrimaryVoter.bind", _attempt_forgotten),
    ),
    bug(
        "half-is-enough",
        "RMP trap 1",
        "half of the last primary is taken for a majority",
        (f"{PRIMARY}:Electorate.has_majority", _half_is_enough),
    ),
    bug(
        "mark-forgotten",
        "RMP trap 32",
        "daemons that were in a primary before their restart found another one",
        (f"{PRIMARY}:PrimaryVoter.__init__", _mark_forgotten),
    ),
)
