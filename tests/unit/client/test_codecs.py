"""Codecs: values as bodies, errors at the call, and messages that say that they cannot be decoded."""

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from hopring import JsonCodec, Message, MsgspecCodec, Transition, Undecodable, WrongType, WrongValue
from hopring.client.receiving.sequence import EventSequence, Taken
from hopring.client.values.codecs import codec_of, decoded, encoded
from hopring.groups.names import GroupViewId
from hopring.ids import DaemonId, Incarnation, Place, ViewId
from hopring.services import Service

VIEW = ViewId(7, DaemonId(1), Incarnation(99))
SIGNAL = Transition("trades", GroupViewId(VIEW, (), 1), ())


class Trade(msgspec.Struct):
    symbol: str
    price: float


@dataclass
class Quote:
    symbol: str
    bid: int


class Reversed:
    """A codec of an application."""

    def encode(self, value: str, /) -> bytes:
        return value[::-1].encode()

    def decode(self, data: bytes, /) -> str:
        return data.decode()[::-1]


def message(data: bytes) -> Message:
    return Message("#anna#eu1", ("trades",), data, Service.AGREED, 3, Place(VIEW, 9, 0))


@pytest.mark.parametrize("kind", [JsonCodec, MsgspecCodec])
def test_values_of_a_type_come_back_as_that_type(kind: Any) -> None:
    for value in (Trade("EURUSD", 1.0842), Quote("EURUSD", 7)):
        codec = kind(type(value))

        back = decoded(codec, message(encoded(codec, value)))

        assert isinstance(back, Message)
        assert back.value == value
        assert back.undecodable == ""
        assert (back.sender, back.type, back.place.lts) == ("#anna#eu1", 3, 9)


def test_names_choose_codecs_for_any_value() -> None:
    json, packed, none = codec_of("json"), codec_of("msgspec"), codec_of(None)

    assert json is not None
    assert packed is not None
    assert none is None
    assert encoded(json, {"a": [1, None]}) == b'{"a":[1,null]}'
    assert msgspec.msgpack.decode(encoded(packed, {"a": [1, b"x"]})) == {"a": [1, b"x"]}


def test_without_a_codec_the_value_is_the_body() -> None:
    assert message(b"x").value == b"x"
    assert message(b"x").undecodable == ""


def test_a_value_that_cannot_be_encoded_is_a_wrong_value_and_keeps_its_cause() -> None:
    codec = codec_of("json")
    assert codec is not None

    with pytest.raises(WrongValue, match="data: the codec cannot encode object") as caught:
        encoded(codec, object())

    assert isinstance(caught.value.__cause__, TypeError)


def test_a_body_that_cannot_be_decoded_says_why_and_keeps_its_bytes() -> None:
    back = decoded(JsonCodec(Trade), message(b'{"symbol": 7}'))

    assert isinstance(back, Message)
    assert back.undecodable.startswith("ValidationError: Expected `str`, got `int`")
    assert back.data == b'{"symbol": 7}'
    with pytest.raises(Undecodable, match="a message of #anna#eu1: the codec cannot decode it") as caught:
        _ = back.value
    assert caught.value.data == b'{"symbol": 7}'


def test_a_sequence_decodes_its_messages_and_leaves_other_events_and_columns() -> None:
    parts = (Taken(message(b"eno"), 1, 0.0), Taken(SIGNAL, 2, 0.0), Taken(message(b"\xff"), 3, 0.0))

    events = EventSequence(parts).decoded_by(Reversed())

    assert [one.value for one in events.messages[:1]] == ["one"]
    assert events.messages[1].undecodable.startswith("UnicodeDecodeError")
    assert list(events)[1] is SIGNAL
    assert [one.order for one in events.taken] == [1, 2, 3]
    assert events.parts == parts


@pytest.mark.parametrize("codec", ["pickle", ""])
def test_an_unknown_name_is_refused(codec: str) -> None:
    with pytest.raises(WrongValue, match=r'codec: got .*; give "json", "msgspec"'):
        codec_of(codec)


@pytest.mark.parametrize("codec", [7, object(), JsonCodec, b"json"])
def test_what_is_no_codec_is_refused(codec: object) -> None:
    with pytest.raises(WrongType, match="codec: got a value of type"):
        codec_of(codec)


def test_a_codec_that_returns_no_bytes_is_refused_at_the_call() -> None:
    class Wrong(Reversed):
        def encode(self, value: str, /) -> bytes:
            return value  # type: ignore[return-value]

    with pytest.raises(WrongType, match="codec: its encode returned str; return bytes"):
        encoded(Wrong(), "x")
