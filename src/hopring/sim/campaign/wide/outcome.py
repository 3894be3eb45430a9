"""The outcome of a world of clusters."""

from dataclasses import dataclass

from hopring.check.wide.history import WideEvent
from hopring.sim.campaign.runner import WorldOutcome


@dataclass(frozen=True, slots=True)
class WideOutcome(WorldOutcome):
    """The outcome of a world of clusters, which has no views of daemons."""

    wide: tuple[WideEvent, ...] = ()
