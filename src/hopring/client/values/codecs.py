"""Codecs: values of an application as bodies of messages, chosen for a session.

Above       the sessions: they encode a value at the call that sends it, and decode a body when its message is
            taken.
Invariants  a value that cannot be encoded is an error at the call, and nothing is sent; a body that cannot be
            decoded keeps its place among the events, as a message that says why, and has its bytes.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Final, Generic, Literal, Protocol, TypeVar, cast, runtime_checkable

import msgspec

from hopring.client.arguments import got
from hopring.client.errors import Undecodable, WrongType, WrongValue
from hopring.client.events import Event, Message, T_co

CodecName = Literal["json", "msgspec"]
"""Codecs for any value: JSON, and msgpack."""

V = TypeVar("V")

PROBLEM_CHARACTERS_MAX: Final = 1024
_REMEDY: Final = 'give "json", "msgspec", or an object with encode and decode'


@runtime_checkable
class Codec(Protocol[V]):
    """Encodes values as bodies, and decodes them; any error of either is handled by the session."""

    def encode(self, value: V, /) -> bytes:
        """Returns the body for a value."""

    def decode(self, data: bytes, /) -> V:
        """Returns the value of a body."""


class JsonCodec(Generic[V]):
    """Values as JSON: of Python, of dataclasses, of msgspec.Struct; decoding checks them against the type."""

    def __init__(self, kind: type[V]) -> None:
        self._encoder = msgspec.json.Encoder()
        self._decoder: msgspec.json.Decoder[V] = msgspec.json.Decoder(kind)

    def encode(self, value: V, /) -> bytes:
        """The value in JSON, as bytes."""
        return self._encoder.encode(value)

    def decode(self, data: bytes, /) -> V:
        """The value of a body in JSON, which has to be of the type."""
        return self._decoder.decode(data)


class MsgspecCodec(Generic[V]):
    """The same values as msgpack."""

    def __init__(self, kind: type[V]) -> None:
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder: msgspec.msgpack.Decoder[V] = msgspec.msgpack.Decoder(kind)

    def encode(self, value: V, /) -> bytes:
        """The value in msgpack, as bytes."""
        return self._encoder.encode(value)

    def decode(self, data: bytes, /) -> V:
        """The value of a body in msgpack, which has to be of the type."""
        return self._decoder.decode(data)


class CodedMessage(Message[T_co], frozen=True):
    """A message of a session with a codec: its body was decoded when it was taken."""

    decoded: object = None
    problem: str = ""

    @property
    def value(self) -> T_co:
        """The decoded body; Undecodable if it could not be decoded."""
        if self.problem:
            raise Undecodable(self.sender, self.problem, self.data)
        return cast("T_co", self.decoded)

    @property
    def undecodable(self) -> str:
        """Why the body could not be decoded; empty if it was."""
        return self.problem


def codec_of(codec: object) -> Codec[Any] | None:
    """Checks the argument `codec` of `connect`."""
    if codec is None:
        return None
    if isinstance(codec, str):
        if codec == "json":
            return JsonCodec(Any)
        if codec == "msgspec":
            return MsgspecCodec(Any)
        raise WrongValue(
            "codec", f"got {codec!r}", 'give "json", "msgspec", or an object with encode and decode'
        )
    if isinstance(codec, type) or not isinstance(codec, Codec):
        raise WrongType("codec", got(codec), 'give "json", "msgspec", or an object with encode and decode')
    return codec


def encoded(codec: Codec[Any], value: object) -> bytes:
    """The body for a value; a codec that cannot is a WrongValue, and nothing was sent."""
    try:
        body = codec.encode(value)
    except Exception as error:
        reason = f"the codec cannot encode {type(value).__name__}: {_text(error)}"
        raise WrongValue("data", reason, "give a value that it can encode, or choose another codec") from error
    if not isinstance(body, bytes):
        raise WrongType("codec", f"its encode returned {type(body).__name__}", "return bytes")
    return body


def bodies_of(codec: Codec[Any] | None, bodies: Sequence[object]) -> Sequence[bytes]:
    """The bodies of `multicast_many`: as they are, or the encoded values."""
    if codec is None or isinstance(bodies, str | bytes | bytearray | memoryview):
        return cast("Sequence[bytes]", bodies)  # They are checked with the other arguments.
    return [encoded(codec, value) for value in bodies]


def decoded(codec: Codec[Any], event: Event) -> Event[Any]:
    """An event with its body decoded, if it is a message."""
    if not isinstance(event, Message):
        return event
    place, headers, retained = event.place, event.headers, event.retained
    fields = (event.sender, event.groups, event.data, event.service, event.type, place, headers, retained)
    try:
        return CodedMessage(*fields, codec.decode(event.data))
    except Exception as error:
        return CodedMessage(*fields, None, _text(error))


def decoded_each(codec: Codec[Any], events: Iterator[Event]) -> Iterator[Event[Any]]:
    """The events with their bodies decoded."""
    return (decoded(codec, event) for event in events)


async def decoded_later(codec: Codec[Any], events: AsyncIterator[Event]) -> AsyncIterator[Event[Any]]:
    """The events of a loop with their bodies decoded."""
    async for event in events:
        yield decoded(codec, event)


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:PROBLEM_CHARACTERS_MAX]
