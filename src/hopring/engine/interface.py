"""The interface of an engine: ordered messages and views for the layers above, whatever protocol is below.

Below       a driver of the engine's own, which has its sockets: its packets go in and out by `step`, as events
            and effects that only those two know.
Above       groups and the session server; status, metrics, trace and simulator, which read `snapshot()`.
Invariants  a layer like all others: pure, `step` and `wake_at_us`; nothing outside of an engine's package and
            its driver reads its insides.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from hopring.compiled import mypyc_attr
from hopring.engine.events import EngineInput, EngineOutput
from hopring.engine.snapshot import EngineState, Snapshot

Event_contra = TypeVar("Event_contra", contravariant=True)
Effect_co = TypeVar("Effect_co", covariant=True)


@mypyc_attr(allow_interpreted_subclasses=True)
class Engine(ABC, Generic[Event_contra, Effect_co]):
    """An engine; its parameters are the events and effects that it shares with its driver alone."""

    @property
    @abstractmethod
    def wake_at_us(self) -> int:
        """When the next `Tick` is due."""

    @abstractmethod
    def step(self, event: EngineInput | Event_contra, now_us: int) -> Sequence[EngineOutput | Effect_co]:
        """Takes one event; returns what follows from it, in its order."""

    @property
    @abstractmethod
    def queue_open(self) -> bool:
        """Whether `Submit` may bring another message of a client."""

    @property
    @abstractmethod
    def drained(self) -> bool:
        """Whether everything that was submitted is at every daemon of the view."""

    @abstractmethod
    def state(self) -> EngineState:
        """The phase and the view, for readers that ask often."""

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """The state of the engine at this moment."""
