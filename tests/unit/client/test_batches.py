"""Batches that count once: sent in order and confirmed, or in doubt and sent again."""

from collections.abc import Callable, Iterable, Iterator

import pytest
from tests.unit.client.wired_client import OPTIONS, connected
from tests.unit.session.fake_daemon import FakeDaemon
from tests.unit.spread.spread_connections import SpreadConnections

from hopring.client.arguments import Reconnect
from hopring.client.calls import BUNDLE_BYTES, BatchItem, Call, batch_of, multicast_batch
from hopring.client.core import ClientCore
from hopring.client.errors import BatchInDoubt, InDoubt, MessageTooLarge, RequestRefused, WrongValue
from hopring.client.events import Message, Receipt
from hopring.client.outgoing import OutgoingMessage
from hopring.client.session_base import core_of
from hopring.ids import GroupName
from hopring.services import Service
from hopring.session.options import TICKETS_MAX
from hopring.wire.batch_mark import BatchMark

SECOND = 1_000_000


def sent(core: ClientCore, messages: Iterable[BatchItem], batch: int = 0) -> Call[Receipt | None]:
    return multicast_batch(core, batch_of("g", "app", batch, Service.SAFE), messages, 0, 5.0)


def finish(verb: Call[Receipt | None], exchange: Callable[[], None], *, begun: bool = False) -> Receipt | None:
    """Runs a call as a shell does; time passes only while nothing else happens."""
    now_us = 0
    try:
        wait = verb.send(now_us) if begun else next(verb)
        while True:
            exchange()
            if not wait.condition():
                now_us = max(now_us, wait.until_us)
            wait = verb.send(now_us)
    except StopIteration as stop:
        receipt: Receipt | None = stop.value
        return receipt


def send(
    fake: FakeDaemon, number: int, core: ClientCore, messages: Iterable[BatchItem], batch: int = 0
) -> Receipt | None:
    return finish(sent(core, messages, batch), lambda: fake.exchange(number, core))


def member(fake: FakeDaemon, number: int = 50, name: str = "bert", window_bytes: int = 1 << 20) -> ClientCore:
    core = fake.client(number, name, window_bytes)
    core.join("g")
    fake.exchange(number, core)
    return core


def messages_of(core: ClientCore) -> list[Message]:
    return [event for event in iter(core.take, None) if isinstance(event, Message)]


def bodies(core: ClientCore) -> list[bytes]:
    return [message.data for message in messages_of(core)]


def numbered(count: int) -> list[bytes]:
    return [b"%d" % at for at in range(count)]


def test_a_batch_is_delivered_in_order_and_the_receipt_is_that_of_the_last() -> None:
    fake = FakeDaemon()
    bert, sink = member(fake), fake.client(1, "sink")
    receipt = send(fake, 1, sink, [b"one", (b"two", 7), b""])
    fake.exchange(50, bert)
    events = messages_of(bert)

    assert [(one.data, one.type) for one in events] == [(b"one", 0), (b"two", 7), (b"", 0)]
    assert receipt == Receipt(("g",), Service.SAFE, events[-1].place, False, 1)
    assert send(fake, 1, sink, [], batch=1) is None


def test_a_repeated_batch_reaches_only_members_that_lack_it() -> None:
    fake = FakeDaemon()
    bert, sink = member(fake), fake.client(1, "sink")
    send(fake, 1, sink, numbered(5))
    carl = member(fake, 51, "carl")
    for _ in range(3):
        send(fake, 1, sink, numbered(5))
        send(fake, 1, sink, numbered(5), batch=1)
    fake.exchange(50, bert)
    fake.exchange(51, carl)

    assert bodies(bert) == bodies(carl) == numbered(5) * 2
    assert (bert.state.dedup.dropped, carl.state.dedup.dropped) == (25, 20)


def test_clients_of_spread_get_the_messages_without_marks_and_as_often_as_they_are_sent() -> None:
    server = SpreadConnections()
    alice = server.client(50, "alice")
    alice.join("g")
    alice.view()
    sink = server.fake.client(1, "sink")
    for _ in range(2):
        send(server.fake, 1, sink, [b"one", b"two"])

    assert [alice.message().body for _ in range(4)] == [b"one", b"two"] * 2


def test_dropped_messages_do_not_move_the_others_in_batches_and_tables() -> None:
    arrow = pytest.importorskip("pyarrow", reason="needs pyarrow: make arrow")
    fake = FakeDaemon()
    bert = member(fake)
    send(fake, 1, fake.client(1, "sink"), numbered(30))
    fake.lose(1)
    send(fake, 2, fake.client(2, "sink"), numbered(100))
    fake.exchange(50, bert)
    bert.take()  # Takes the view.
    batch = bert.take_many(1000, "g")

    assert [message.data for message in batch.messages] == numbered(100)
    table = batch.to_arrow()
    assert table["data"] == arrow.chunked_array([numbered(30), numbered(100)[30:]], arrow.binary())


def test_dropped_bundles_use_no_window() -> None:
    fake = FakeDaemon()
    bert, sink = member(fake, window_bytes=64 * 1024), fake.client(1, "sink")
    for _ in range(20):
        send(fake, 1, sink, [bytes(20_000)])
        fake.exchange(50, bert)
    send(fake, 1, sink, [b"next"], batch=1)
    fake.exchange(50, bert)

    assert bodies(bert) == [bytes(20_000), b"next"]


def test_messages_of_a_batch_are_taken_from_the_iterator_only_when_the_window_has_space() -> None:
    fake = FakeDaemon()
    sink = fake.client(1, "sink")
    fake.stopped = True
    taken = 0

    def many() -> Iterator[bytes]:
        nonlocal taken
        for _ in range(1000):
            taken += 1
            yield bytes(16 * 1024)

    verb = sent(sink, many())
    wait = next(verb)
    fake.exchange(1, sink)

    assert not wait.condition()
    window_bytes = sink.welcomed.window_bytes
    assert window_bytes - 2 * BUNDLE_BYTES < taken * 16 * 1024 < window_bytes + 2 * BUNDLE_BYTES
    fake.stopped = False
    fake.pump()
    finish(verb, lambda: fake.exchange(1, sink), begun=True)
    assert taken == 1000


def test_no_more_bundles_are_in_flight_than_there_are_tickets() -> None:
    fake = FakeDaemon()
    sink = fake.client(1, "sink")
    fake.stopped = True
    for index in range(TICKETS_MAX):
        assert sink.has_room_for_bundle(GroupName("g"), 1, 0)
        put(sink, [b""], index)
    assert not sink.has_room_for_bundle(GroupName("g"), 1, 0)
    fake.exchange(1, sink)
    fake.stopped = False
    fake.pump()
    fake.exchange(1, sink)

    assert sink.has_room_for_bundle(GroupName("g"), 1, 0)
    assert (sink.outgoing.tickets, sink.outgoing.charged_bytes) == ({}, 0)


@pytest.mark.parametrize("cut", range(0, 700, 13))
def test_a_batch_is_delivered_once_if_its_sender_dies_anywhere_and_one_of_its_name_repeats_it(cut: int) -> None:
    fake = FakeDaemon()
    bert, killed = member(fake), fake.client(1, "sink")
    for part in range(4):  # Bundles that end at other messages than those of the second sender.
        put(killed, numbered(12)[part * 3 : part * 3 + 3], part * 3)
    fake.say(1, killed.output()[:cut])
    fake.lose(1)
    send(fake, 2, fake.client(2, "sink"), numbered(12))
    fake.exchange(50, bert)

    assert bodies(bert) == numbered(12)


def test_a_session_with_a_random_name_sends_no_batches() -> None:
    core = core_of("hop://nowhere", None, True, 1 << 20, "kick", False, None, 5.0, False)

    with pytest.raises(WrongValue, match="give connect a name"):
        next(sent(core, [b"x"]))


def test_batches_of_a_foreign_session_do_not_stand_for_those_of_an_application() -> None:
    fake = FakeDaemon()
    bert, sink, foreign = member(fake), fake.client(1, "sink"), fake.client(2, "foreign")
    send(fake, 2, foreign, [b"forged"], batch=0)
    send(fake, 1, sink, [b"real"], batch=0)
    fake.exchange(50, bert)

    assert [(one.sender, one.data) for one in messages_of(bert)] == [
        ("#foreign#eu1", b"forged"),
        ("#sink#eu1", b"real"),
    ]


def put(core: ClientCore, messages: list[bytes], index: int) -> None:
    """Submits a bundle from the middle of a batch."""
    sending = OutgoingMessage((GroupName("g"),), b"", Service.SAFE)
    core.outgoing.append_bundle(sending, BatchMark("app", 0, index), messages, [0] * len(messages))


@pytest.mark.parametrize("options", [OPTIONS, None], ids=["comes back", "ends"])
def test_a_lost_connection_leaves_the_batch_in_doubt_and_it_may_be_sent_again(
    options: Reconnect | None,
) -> None:
    fake = FakeDaemon()
    bert, wire = member(fake), connected(fake, options=options)
    fake.stopped = True
    verb = sent(wire.core, numbered(5), batch=3)
    wait = next(verb)
    wire.exchange(0)
    assert not wait.condition()
    wire.lose(SECOND)
    assert wait.condition()
    with pytest.raises(BatchInDoubt) as caught:
        verb.send(SECOND)

    assert str(caught.value) == (
        "batch 3 of 'app' to g: the connection was lost before all its receipts came (the daemon is gone); "
        "send it again under the same number, by a session of the same name: receivers drop what they have had"
    )
    assert isinstance(caught.value, InDoubt)
    assert (caught.value.groups, caught.value.app, caught.value.batch) == (("g",), "app", 3)
    fake.stopped = False
    fake.pump()
    send(fake, 9, fake.client(9, wire.core.name), numbered(5), batch=3)
    fake.exchange(50, bert)
    assert bodies(bert) == numbered(5)
    assert bert.state.dedup.dropped == 5


def test_a_batch_never_continues_on_another_connection() -> None:
    fake = FakeDaemon()
    wire = connected(fake)
    fake.stopped = True
    verb = sent(wire.core, [bytes(100_000)] * 20)
    wait = next(verb)
    wire.lose(0)
    fake.stopped = False
    fake.pump()
    wire.dial(wire.core.wake_at_us)

    assert wire.core.connected
    assert wait.condition()
    with pytest.raises(BatchInDoubt, match="the connection was lost"):
        verb.send(SECOND)
    receipt = finish(sent(wire.core, [b"x"]), lambda: wire.exchange(SECOND))
    assert receipt is not None


def test_a_batch_without_progress_times_out() -> None:
    fake = FakeDaemon()
    sink = fake.client(1, "sink")
    fake.stopped = True
    with pytest.raises(BatchInDoubt, match="nothing moved for 5 s"):
        send(fake, 1, sink, numbered(3))


def test_an_invalid_batch_is_refused_before_anything_is_sent() -> None:
    sink = FakeDaemon().client(1, "sink")
    for app in ("", "a\0b", "x" * 129, "\ud800"):
        with pytest.raises(ValueError, match="name the application"):
            batch_of("g", app, 0, Service.SAFE)
    for number in (-1, 2**31):
        with pytest.raises(ValueError, match="give an int, 0 to 2147483647"):
            batch_of("g", "app", number, Service.SAFE)
    with pytest.raises(ValueError, match="no receipt"):
        batch_of("g", "app", 0, Service.UNRELIABLE)
    with pytest.raises(RequestRefused):
        batch_of("", "app", 0, Service.SAFE)
    with pytest.raises(MessageTooLarge):
        next(sent(sink, [bytes(sink.welcomed.message_bytes_max + 1)]))
    with pytest.raises(ValueError, match="0 to 65535"):
        next(sent(sink, [(b"", 65_536)]))
    assert sink.output() == b""
