"""What a program provides for the state of a group (blocks/state_transfer.py)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from hopring.client.arguments import got
from hopring.client.core import ClientCore
from hopring.client.errors import WrongType, WrongValue


@dataclass(frozen=True, slots=True)
class StateSnapshot:
    """A state in parts of any size; if it says how long it is, other lengths are an error."""

    parts: Iterable[bytes]
    size_bytes: int | None = None


@runtime_checkable
class StateProvider(Protocol):
    """What a program does for the state of a group. It is called between two events of the group.

    The parts of a snapshot may be made later, as they are sent; they have to be those of the state at the call.
    """

    def snapshot(self) -> bytes | Iterable[bytes] | StateSnapshot:
        """The state as it is now."""

    def restore(self, state: bytes, /) -> None:
        """Replaces the state by this one."""


@runtime_checkable
class MergingProvider(StateProvider, Protocol):
    """A provider that can merge the states of several sides, in the same way at all members."""

    def merge(self, states: Sequence[bytes], /) -> None:
        """Replaces the state by one that is made of these, of which one is its own."""


def check_state(core: ClientCore, state: object, since: object, synchrony: object) -> None:
    """Checks the provider of a group's state."""
    if not isinstance(state, StateProvider):
        raise WrongType("state", got(state), "give an object with snapshot() and restore(state)")
    if since is not None:
        raise WrongValue("state", "given beside since", "the state has what was before")
    if synchrony is not None:
        raise WrongValue("state", "given beside synchrony", "join two groups, or leave out one of both")
    if not core.membership:
        raise WrongValue("state", "a group with a state needs views", "connect with membership=True")
    if core.slow == "drop":
        reason = "a member that misses messages does not have the state of the group"
        raise WrongValue("state", reason, 'connect with another policy than slow="drop"')
