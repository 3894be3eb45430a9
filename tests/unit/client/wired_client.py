"""A client core whose connection is a byte exchange with a fake daemon."""

from tests.unit.session.fake_daemon import FakeDaemon

from hopring.client.arguments import Reconnect
from hopring.client.core import ClientCore
from hopring.client.events import Event
from hopring.client.outgoing import OutgoingMessage
from hopring.ids import GroupName

SECOND = 1_000_000


OPTIONS = Reconnect(delay_seconds_min=0.1, delay_seconds_max=1.0, give_up_seconds=10.0)


class WiredClient:
    """One client, connected to any fake daemon that a test gives it."""

    def __init__(
        self, fake: FakeDaemon, urls: tuple[str, ...] = ("hop://one",), options: Reconnect | None = OPTIONS
    ) -> None:
        self.fake = fake
        self.core = ClientCore(urls, "anna", reconnect=options, epoch_us=1_000 * SECOND)
        self.number = 0
        self.core.begin(0)

    def dial(self, now_us: int) -> str | None:
        """Connects if the client wants a connection."""
        url = self.core.dial(now_us)
        if url is not None:
            self.number += 1
            self.fake.open(self.number)
            self.exchange(now_us)
        return url

    def exchange(self, now_us: int) -> None:
        while True:
            up = self.core.output()
            if up:
                self.fake.say(self.number, up)
            down = self.fake.fetch(self.number)
            self.core.receive(down, now_us)
            if not up and not down:
                return

    def lose(self, now_us: int) -> None:
        self.core.lost("the daemon is gone", now_us)
        self.fake.lose(self.number)

    def events(self, group: str | None = None) -> list[Event]:
        seen: list[Event] = []
        while (event := self.core.take(group)) is not None:
            seen.append(event)
        return seen


def connected(fake: FakeDaemon, *groups: str, options: Reconnect | None = OPTIONS) -> WiredClient:
    wire = WiredClient(fake, options=options)
    assert wire.dial(0) == "hop://one"
    for group in groups:
        wire.core.join(group)
    wire.exchange(0)
    return wire


def sending(group: str, data: bytes) -> OutgoingMessage:
    return OutgoingMessage((GroupName(group),), data)
