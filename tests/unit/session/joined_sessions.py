"""Sessions that have joined a group, and messages from them."""

from tests.unit.session.fake_daemon import FakeDaemon

from hopring.client.core import ClientCore
from hopring.client.events import Event, Message
from hopring.client.session_base import message_of
from hopring.services import Service


def joined(
    fake: FakeDaemon,
    number: int,
    name: str,
    *groups: str,
    window_bytes: int = 1 << 20,
    membership: bool = True,
) -> ClientCore:
    core = fake.client(number, name, window_bytes, membership)
    for group in groups:
        core.join(group)
        fake.exchange(number, core)
        assert core.answers.pop(("join", group)) is None
    return core


def events(core: ClientCore) -> list[Event]:
    out = []
    while (event := core.take()) is not None:
        out.append(event)
    return out


def send(core: ClientCore, data: bytes, *groups: str, self_discard: bool = False) -> None:
    core.outgoing.append(message_of(groups, data, Service.AGREED, 5, self_discard))


def data(core: ClientCore) -> list[bytes]:
    return [event.data for event in events(core) if isinstance(event, Message)]
