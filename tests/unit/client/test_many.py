"""Many messages in one call, and the fast path of single ones: bundles, the window, and refusals."""

import pytest
from tests.unit.client.wired_client import WiredClient, connected, sending
from tests.unit.session.fake_daemon import FakeDaemon

from hopring.client import calls
from hopring.client.errors import MessageTooLarge, RequestRefused
from hopring.client.outgoing import BUNDLE_BYTES_AIM, OutgoingSeries
from hopring.client.session_base import series_of
from hopring.services import AGREED, SAFE, Service
from hopring.wire.bundle import COLUMNS_BYTES, MESSAGES_MAX


def many(*bodies: bytes, group: str = "g") -> OutgoingSeries:
    return series_of(group, bodies, Service.AGREED, 7, False)


def next_of(verb: calls.Call[None]) -> calls.Wait | None:
    """The number of bytes that it waits for next; None when it has ended."""
    try:
        return verb.send(0)
    except StopIteration:
        return None


def send(wire: WiredClient, some: OutgoingSeries) -> None:
    """Sends all of them; the window has space for all."""
    assert list(calls.multicast_many(wire.core, some, 0)) == []
    wire.exchange(0)


def received(wire: WiredClient) -> list[tuple[bytes, int, int]]:
    """All messages, with their types and the sizes of their runs."""
    runs = wire.core.take_many(1_000_000, None).runs
    return [(one.data, one.type, len(run)) for run in runs for one in run.messages()]


def test_many_messages_come_in_order_as_one_bundle() -> None:
    wire = connected(FakeDaemon(), "g")

    send(wire, many(b"1", b"", b"three"))

    assert received(wire) == [(b"1", 7, 3), (b"", 7, 3), (b"three", 7, 3)]


def test_the_open_bundle_is_sent_first() -> None:
    wire = connected(FakeDaemon(), "g")
    wire.core.send(many(b"").sending._replace(data=b"first"))
    send(wire, many(b"second"))

    assert [data for data, _, _ in received(wire)] == [b"first", b"second"]


def test_bundles_are_limited_by_bytes_and_by_messages() -> None:
    wire = connected(FakeDaemon(), "g")
    third = BUNDLE_BYTES_AIM // 3 - 7  # With its offset, type and hints.
    send(wire, many(*[bytes([at]) * third for at in range(7)]))
    assert [(data[0], size) for data, _, size in received(wire)] == [
        *[(at, 3) for at in range(6)],
        (6, 1),
    ]

    send(wire, many(*[b""] * (MESSAGES_MAX + 1)))
    assert [size for _, _, size in received(wire)] == [*[MESSAGES_MAX] * MESSAGES_MAX, 1]


def test_more_than_the_window_waits_for_credit() -> None:
    wire = connected(FakeDaemon(), "g")
    window_bytes = wire.core.welcomed.window_bytes
    bodies = [at.to_bytes(4, "little") * 5_000 for at in range(3 * window_bytes // 20_000)]
    got: list[bytes] = []
    waits = 0
    verb = calls.multicast_many(wire.core, many(*bodies), 0)
    wait: calls.Wait | None = next(verb)
    while wait is not None:
        waits += 1
        assert wire.core.outgoing.charged_bytes <= window_bytes
        wire.exchange(0)
        got += [data for data, _, _ in received(wire)]
        assert wait.condition()
        wait = next_of(verb)
    wire.exchange(0)
    got += [data for data, _, _ in received(wire)]

    assert waits >= 2
    assert got == bodies


def test_a_message_that_is_too_large_is_refused_before_any_is_sent() -> None:
    wire = connected(FakeDaemon(), "g")
    limit_bytes = wire.core.welcomed.message_bytes_max
    with pytest.raises(MessageTooLarge):
        send(wire, many(b"small", bytes(limit_bytes + 1)))

    assert received(wire) == []
    send(wire, many(bytes(limit_bytes), b"small"))
    assert [len(data) for data, _, _ in received(wire)] == [limit_bytes, 5]


def test_an_empty_list_sends_nothing_and_groups_are_checked() -> None:
    wire = connected(FakeDaemon(), "g")

    send(wire, many())
    assert received(wire) == []
    with pytest.raises(RequestRefused):
        many(b"x", group="")
    with pytest.raises(ValueError, match="type: 65536 is out of range"):
        series_of("g", [b"x"], Service.AGREED, 1 << 16, False)


def test_the_fast_path_opens_a_bundle_or_adds_to_the_open_one() -> None:
    wire = connected(FakeDaemon(), "g")
    core = wire.core

    assert not core.try_send("g", bytes(core.welcomed.message_bytes_max + 1), AGREED, 0, False)
    assert core.try_send("g", b"1", AGREED, 0, False)
    assert core.try_send("g", b"2", AGREED, 3, False)
    for groups, data, service, kind, self_discard in (
        (["g"], b"perhaps several", AGREED, 0, False),
        ("g", bytearray(b"may change"), AGREED, 0, False),
        ("g", b"another service", SAFE, 0, False),
        ("g", b"another key", AGREED, 0, True),
        ("g", b"no type", AGREED, 1 << 16, False),
        ("g", bytes(core.welcomed.message_bytes_max), AGREED, 0, False),
    ):
        assert not core.try_send(groups, data, service, kind, self_discard)
    charged_bytes = core.outgoing.charged_bytes
    wire.exchange(0)

    assert core.outgoing.charged_bytes == 0 < charged_bytes
    (run,) = core.take_many(10, None).runs
    assert [(one.data, one.type) for one in run.messages()] == [(b"1", 0), (b"2", 3)]
    wire.lose(0)
    assert not core.try_send("g", b"too late", AGREED, 0, False)


def test_the_fast_path_respects_the_window() -> None:
    wire = connected(FakeDaemon(), "g")
    core = wire.core
    core.send(sending("g", b"1"))
    while core.try_send("g", bytes(100_000), AGREED, 0, False):
        core.outgoing.close_bundle()
        if not core.has_room(sending("g", b"")):
            break
        core.send(sending("g", b""))

    assert core.outgoing.charged_bytes <= core.welcomed.window_bytes
    wire.exchange(0)
    assert core.ended is None


def test_single_messages_fill_bundles_as_many_do_and_a_long_one_has_its_own() -> None:
    wire = connected(FakeDaemon(), "g")
    sizes = [BUNDLE_BYTES_AIM // 3 - COLUMNS_BYTES - 1] * 4 + [2 * BUNDLE_BYTES_AIM, 5]
    for size in sizes:
        wire.core.send(sending("g", bytes(size)))
    wire.exchange(0)

    assert [(len(data), size) for data, _, size in received(wire)] == [
        *zip(sizes, [3, 3, 3, 1, 1, 1], strict=True)
    ]
