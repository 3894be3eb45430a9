"""Drives a pure layer on the loop.

The driver gives its layer one event at a time with the time, has the effects carried out, and looks at
`wake_at_us` once at the end of each turn: a layer that wants to act by then gets its Tick, any other an alarm.
So all that one turn brought shares packets.
"""

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from hopring.daemon.loop.event_loop import Loop
from hopring.ids import NEVER
from hopring.links.events import Tick

Event_contra = TypeVar("Event_contra", contravariant=True)
Effect_co = TypeVar("Effect_co", covariant=True)
Event = TypeVar("Event")
Effect = TypeVar("Effect")


class Layer(Protocol[Event_contra, Effect_co]):
    """The interface of every pure layer."""

    @property
    def wake_at_us(self) -> int:
        """When the next Tick is due."""

    def step(self, event: Event_contra | Tick, now_us: int) -> Sequence[Effect_co]:
        """Takes one event; returns the effects to carry out."""


class LayerDriver(Generic[Event, Effect]):
    """One layer on one loop. `carry_out` gets the effects of one step and gives no further event meanwhile."""

    def __init__(
        self, loop: Loop, layer: Layer[Event, Effect], carry_out: Callable[[Sequence[Effect]], None]
    ) -> None:
        self._loop = loop
        self._layer = layer
        self._carry_out = carry_out
        self._stepping = False
        self._closed = False
        self._look_due = False
        self._alarm = loop.alarm(self._look_soon)
        self._look_soon()

    def give(self, event: Event | Tick) -> None:
        """Hands an event to the layer; the layer's PeerError is the caller's to count."""
        assert not self._stepping, "effects in the middle of others would be out of order"
        if self._closed:
            return
        self._step(event, self._loop.now_us())
        self._look_soon()

    def close(self) -> None:
        """Gives the layer no further events."""
        self._closed = True
        self._alarm.set(NEVER)

    def _step(self, event: Event | Tick, now_us: int) -> None:
        self._stepping = True
        try:
            effects = self._layer.step(event, now_us)
            if effects:
                self._carry_out(effects)
        finally:
            self._stepping = False

    def _look_soon(self) -> None:
        if not self._look_due:
            self._look_due = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        self._look_due = False
        if self._closed:
            return
        now_us = self._loop.now_us()
        if self._layer.wake_at_us <= now_us:
            self._step(Tick(), now_us)
        self._alarm.set(self._layer.wake_at_us)
