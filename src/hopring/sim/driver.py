"""The clockwork that runs any protocol object in virtual time: a link, a ring member, the whole stack.

Such a core takes an event and the time, returns outputs, and says with `wake_at_us` when it wants a `Tick`.
Ticks are never cancelled: one that comes early looks at `wake_at_us` and goes back to sleep until then, and
one that an earlier one has replaced finds that out by its number.
"""

from collections.abc import Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar

from hopring.ids import NEVER
from hopring.links.events import Tick
from hopring.sim.network import SimNetwork

TICKS_PER_MOMENT_MAX: Final = 1_000
"""A core that still wants a tick after so many at one and the same time will want them for ever."""

In = TypeVar("In")
Out = TypeVar("Out")
In_contra = TypeVar("In_contra", contravariant=True)
Out_co = TypeVar("Out_co", covariant=True)


class SimLayer(Protocol[In_contra, Out_co]):
    """The shape of every layer of hopring."""

    @property
    def wake_at_us(self) -> int:
        """The next moment at which it wants a Tick."""

    def step(self, event: In_contra | Tick, now_us: int) -> Sequence[Out_co]:
        """What follows from one event."""


class Driver(Generic[In, Out]):
    """Runs one core on one host; `carry_out` does what an output asks for."""

    def __init__(
        self,
        network: SimNetwork,
        host: str,
        core: SimLayer[In, Out],
        carry_out: Callable[[Out], None],
        then: Callable[[], None] | None = None,
    ) -> None:
        """`then` is called when a step is over and all its outputs are carried out."""
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
        """Hands one event to the core, carries out what it says, and plans its next tick."""
        if self._stopped:
            return
        for output in self.core.step(event, self._network.engine.now_us):
            self._carry_out(output)
        if self._then is not None:
            self._then()
        self.look_again()

    def stop(self) -> None:
        """Lets the core rest for good: no event reaches it any more, and no tick."""
        self._stopped = True

    def look_again(self) -> None:
        """Plans a tick if the core wants one before the next that is planned."""
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
