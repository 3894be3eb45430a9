"""Planted bugs of state transfer: where a snapshot is taken, who speaks, what waits."""

from collections.abc import Callable
from typing import Any, Final

from hopring.blocks.state_events import GiveEvent, Output, SendMark, TakeSnapshot, TakeState
from hopring.blocks.state_header import Claim, ClaimMark, decode_claim, encode_claim
from hopring.blocks.state_transfer import Round, StateTransfer
from hopring.client.events import Member
from hopring.sim.campaign.bugs.planting import Bug, block_bug


def _after_the_claims(step: Callable[..., list[Output]]) -> Any:
    late: dict[int, TakeSnapshot] = {}

    def snapshot_with_the_next_message(self: StateTransfer, event: Any) -> list[Output]:
        outputs = step(self, event)
        taking = [one for one in outputs if isinstance(one, TakeSnapshot)]
        released = any(isinstance(one, GiveEvent) and isinstance(one.item, tuple) for one in outputs)
        rest: list[Output] = [one for one in outputs if not isinstance(one, TakeSnapshot)]
        if taking:
            late[id(self)] = taking[-1]
        elif released and id(self) in late:
            rest.append(late.pop(id(self)))
        return rest

    return snapshot_with_the_next_message


def _every_peer_speaks(speaker: Callable[..., Member]) -> Any:
    del speaker
    return lambda self, _at: self._me


def _with_nothing(claim: Callable[..., SendMark]) -> Any:
    def as_one_that_lives(self: StateTransfer, at: Round, of: set[Member]) -> SendMark:
        sent = claim(self, at, of)
        said = decode_claim(sent.data)
        assert isinstance(sent.mark, ClaimMark), "a claim"
        assert said is not None, "a claim"
        place = (self._view.id.view.counter,) if self._view is not None else ()
        if said.standing >= 2:
            return sent
        self._snapshot = None
        lie = Claim(said.of, 3, place, place, said.merges)
        return SendMark("", sent.mark, encode_claim(lie))

    return as_one_that_lives


def _without_the_first(take: Callable[..., list[Output]]) -> Any:
    def lost_between(self: StateTransfer, at: Round) -> list[Output]:
        outputs = take(self, at)
        first = next(
            (one for one in outputs if isinstance(one, GiveEvent) and isinstance(one.item, tuple)), None
        )
        assert any(isinstance(one, TakeState) for one in outputs), "a state is taken"
        return [one for one in outputs if one is not first]

    return lost_between


BUGS: Final[tuple[Bug, ...]] = (
    block_bug(
        "state",
        "snapshot-behind-the-view",
        "RMP trap 24: the snapshot is of the place where the round began",
        "a speaker takes its snapshot after the next message",
        ("hopring.blocks.state_transfer:StateTransfer.step", _after_the_claims),
    ),
    block_bug(
        "state",
        "two-speakers",
        "RMP trap 24: of members with the same state one speaks",
        "every member speaks for its peers",
        ("hopring.blocks.state_transfer:StateTransfer._speaker", _every_peer_speaks),
    ),
    block_bug(
        "state",
        "empty-joiner-speaks",
        "RMP trap 25: a member without state has none to give",
        "a member without state claims one",
        ("hopring.blocks.state_transfer:StateTransfer._claim", _with_nothing),
    ),
    block_bug(
        "state",
        "operation-lost-at-ready",
        "RMP trap 24: messages since the place of the snapshot wait and follow",
        "the first message that waited for the state is lost",
        ("hopring.blocks.state_transfer:StateTransfer._take_states", _without_the_first),
    ),
)
