"""Runs any protocol layer in virtual time: a link, a ring member, a stack, a membership.

A layer takes an event and the time, returns outputs, and says with `wake_at_us` when it wants a `Tick`.
Ticks are never cancelled: an early one looks at `wake_at_us` again and waits until then, and one that was
replaced by an earlier one is recognised by its number.
"""

from collections.abc import Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar

from hopring.ids import NEVER
from hopring.links.events import Tick
from hopring.sim.network import SimNetwork

TICKS_PER_MOMENT_MAX: Final = 1_000
"""More ticks than this at one moment mean that the layer asks for them endlessly."""

In = TypeVar("In")
Out = TypeVar("Out")
In_contra = TypeVar("In_contra", contravariant=True)
Out_co = TypeVar("Out_co", covariant=True)


class SimLayer(Protocol[In_contra, Out_co]):
    """The interface of every protocol layer."""

    @property
    def wake_at_us(self) -> int:
        """The time of the next Tick it wants."""

    def step(self, event: In_contra | Tick, now_us: int) -> Sequence[Out_co]:
        """Handles one event and returns its outputs."""


class Driver(Generic[In, Out]):
    """Runs one layer on one host; `carry_out` executes its outputs."""

    def __init__(
        self,
        network: SimNetwork,
        host: str,
        core: SimLayer[In, Out],
        carry_out: Callable[[Out], None],
        then: Callable[[], None] | None = None,
    ) -> None:
        """`then` is called after each step, when all its outputs have been carried out."""
        self.core = core
        self._then = then
        self._network = network
        self._host = host
        self._carry_out = carry_out
        self._planned_us = NEVER
        self._plan = 0  # The number of the tick that counts; older ones are void.
        self._ticks_now = 0
        self._ticked_at_us = -1
        self._stopped = False
        self.look_again()

    def step(self, event: In | Tick) -> None:
        """Hands one event to the layer, carries out its outputs, and plans its next tick."""
        if self._stopped:
            return
        for output in self.core.step(event, self._network.engine.now_us):
            self._carry_out(output)
        if self._then is not None:
            self._then()
        self.look_again()

    def stop(self) -> None:
        """Stops the layer for good: no event and no tick reaches it any more."""
        self._stopped = True

    def look_again(self) -> None:
        """Plans a tick if the layer wants one earlier than the planned one."""
        wake_at_us = self.core.wake_at_us
        if wake_at_us < self._planned_us:
            self._planned_us = wake_at_us
            self._plan += 1
            self._network.timer(self._host, wake_at_us, self._tick, self._plan)

    def _tick(self, plan: int) -> None:
        if plan != self._plan or self._stopped:
            return
        self._planned_us = NEVER
        now_us = self._network.engine.now_us
        if now_us < self.core.wake_at_us:
            self.look_again()
            return
        self._ticks_now = self._ticks_now + 1 if now_us == self._ticked_at_us else 1
        self._ticked_at_us = now_us
        assert self._ticks_now <= TICKS_PER_MOMENT_MAX, f"{self._host} ticks without end at {now_us} us"
        self.step(Tick())
