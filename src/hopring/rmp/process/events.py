"""Events between the groups of a process and its driver, and the interface of a ring below them."""

from typing import Final, Protocol, final

from hopring.groups.events import EngineEvent, Output
from hopring.ids import GroupName
from hopring.rmp.events import PacketArrived, RingEffect, RingInput, RingOutput
from hopring.rmp.snapshot import PeerRingSnapshot


class RingLayer(Protocol):
    """A ring as the groups of a process use it: one object for all stays of the process in one group."""

    @property
    def wake_at_us(self) -> int:
        """When the next `Tick` is due."""
        ...

    @property
    def serving(self) -> bool:
        """Whether the ring still answers others, after a leave too."""
        ...

    def snapshot(self) -> PeerRingSnapshot:
        """The state as one plain value."""
        ...

    def step(self, event: RingInput, now_us: int) -> list[RingOutput]:
        """Takes one event; returns effects and news in order."""
        ...


@final
class GroupPacket(EngineEvent):
    """A packet of a group has arrived."""

    def __init__(self, group: GroupName, packet: PacketArrived) -> None:
        self.group: Final = group
        self.packet: Final = packet


@final
class ProcessStalled(EngineEvent):
    """The driver did not run for this long: others were not necessarily silent."""

    def __init__(self, for_us: int) -> None:
        self.for_us: Final = for_us


class PeerOutputs:
    """What the groups of a process have for the session server, and for the driver."""

    def __init__(self) -> None:
        self.outputs: list[Output] = []
        self.packets: list[tuple[GroupName, RingEffect]] = []

    def take_outputs(self) -> list[Output]:
        """The outputs for the session server so far."""
        out, self.outputs = self.outputs, []
        return out
