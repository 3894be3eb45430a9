"""A sink for shaped datagrams that records when each one left."""

from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.net.udp import Address
from hopring.wire.train import Train

HERE: Address = ("192.0.2.1", 1)


THERE: Address = ("192.0.2.2", 2)


class Outbox:
    """Datagrams from a shaper, with their times."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.trains: list[tuple[int, Train, Address]] = []

    def send(self, train: Train, address: Address) -> None:
        self.trains.append((self.loop.now_us(), train, address))

    @property
    def buffers(self) -> list[bytes]:
        return [train.buffer for _, train, _ in self.trains]
