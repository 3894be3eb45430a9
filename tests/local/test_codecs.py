"""Sessions with codecs and with trace context, at a daemon."""

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from hopring import JsonCodec, Message, Request, WrongValue, connect, sync, trace_context

pytestmark = pytest.mark.slow

trace = pytest.importorskip("opentelemetry.trace")


class Trade(msgspec.Struct):
    symbol: str
    price: float


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with sync.local_cluster({"eu": 1}) as cluster:
        yield cluster.url("eu1")


def test_values_are_typed_bad_bodies_say_so_and_nothing_else_is_lost(url: str) -> None:
    async def main() -> None:
        async with (
            connect(url, codec=JsonCodec(Trade)) as typed,
            connect(url) as plain,
            typed.join("trades") as group,
        ):
            await group.multicast(Trade("EURUSD", 1.5))
            await plain.multicast_wait("trades", b"not json")
            await group.multicast_many([Trade("A", 1), Trade("B", 2)])
            with pytest.raises(WrongValue, match="the codec cannot encode object"):
                await group.multicast(object())  # type: ignore[arg-type]
            await group.multicast_wait(Trade("last", 0))

            await group.receive()  # The view.
            first = await group.receive()
            assert isinstance(first, Message)
            assert first.value.symbol == "EURUSD"
            assert first.data == b'{"symbol":"EURUSD","price":1.5}'
            rest: list[Message[Trade]] = []
            async for message in group.messages():
                rest.append(message)
                if not message.undecodable and message.value.symbol == "last":
                    break
            assert [one.undecodable[:12] for one in rest] == ["DecodeError:", "", "", ""]
            assert [one.value.symbol for one in rest[1:]] == ["A", "B", "last"]

    asyncio.run(main())


def test_a_blocking_session_has_the_same_codecs(url: str) -> None:
    with sync.connect(url, codec="msgspec") as session, session.join("any") as group:
        for value in ({"a": 1}, [b"x"], None):
            group.multicast(value)
        group.multicast_wait("end")

        found: list[Any] = []
        while not found or found[-1] != "end":
            found += [one.value for one in group.receive_many().messages]

    assert found == [{"a": 1}, [b"x"], None, "end"]


def test_trace_context_goes_with_messages_and_requests_and_is_current_in_handlers(url: str) -> None:
    flags = trace.TraceFlags(trace.TraceFlags.SAMPLED)
    span = trace.NonRecordingSpan(trace.SpanContext(77, 7, False, flags))

    def current() -> int:
        found: int = trace.get_current_span().get_span_context().trace_id
        return found

    async def main() -> None:
        async with (
            connect(url, trace_context=True) as session,
            session.join("traced") as group,
        ):

            async def handler(_request: Request) -> bytes:
                await asyncio.sleep(0)
                return str(current()).encode()

            async with session.serve("traced", handler):
                with trace.use_span(span):
                    await group.multicast(b"x")
                    reply = await session.request("traced", b"", timeout_seconds=60)
                await group.multicast_wait(b"y")
                untraced = await session.request("traced", b"", timeout_seconds=60)
            messages = group.messages()
            first, second = await anext(messages), await anext(messages)

        assert trace.get_current_span(trace_context(first)).get_span_context().trace_id == 77
        assert not second.headers
        assert (reply.data, untraced.data) == (b"77", b"0")

    asyncio.run(main())
