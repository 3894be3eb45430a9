"""Connections of Spread clients to a fake daemon."""

from tests.spread.client import (
    Client,
)
from tests.unit.session.fake_daemon import FakeDaemon

from hopring.links.events import Tick
from hopring.session.options import SessionOptions


class SpreadConnections:
    """Connections of Spread clients that are byte strings."""

    def __init__(self, options: SessionOptions | None = None) -> None:
        self.fake = FakeDaemon(options)
        self.left: dict[int, bytes] = {}  # Fetched from the daemon, and not read by the client.

    def open(self, number: int, order: str = "<", address: str = "") -> Client:
        self.fake.open(number, spread=True, address=address)
        self.left[number] = b""
        return Client(
            lambda data: self.fake.say(number, data),
            lambda size: self.read(number, size),
            lambda: self.fake.lose(number),
            order,
        )

    def client(
        self, number: int, user: str, order: str = "<", membership: bool = True, priority: bool = False
    ) -> Client:
        return self.open(number, order).connect(user, membership=membership, priority=priority)

    def read(self, number: int, size: int) -> bytes:
        while len(self.left[number]) < size and (more := self.fake.fetch(number)):
            self.left[number] += more
        out, self.left[number] = self.left[number][:size], self.left[number][size:]
        return out

    def pass_time(self, time_us: int) -> None:
        self.fake.now_us += time_us
        self.fake.step(Tick())
