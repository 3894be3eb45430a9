"""Headers of messages: from the call to every kind of receiver."""

import pickle

import pytest
from tests.unit.session.fake_daemon import FakeDaemon
from tests.unit.spread.spread_connections import SpreadConnections

from hopring.client.core import ClientCore
from hopring.client.errors import WrongType, WrongValue
from hopring.client.events import NO_HEADERS, Headers, Message
from hopring.client.session_base import message_of
from hopring.services import AGREED, SAFE, Service
from hopring.spooler import RunBuilder
from hopring.wire.envelope import ENVELOPE_BYTES_MAX, ENVELOPE_SPARE_BYTES, HEADERS_MAX, encode_envelope


def member(fake: FakeDaemon, number: int, name: str, *groups: str) -> ClientCore:
    core = fake.client(number, name)
    for group in groups:
        core.join(group)
        fake.exchange(number, core)
    received(core)
    return core


def received(core: ClientCore) -> list[Message]:
    return [event for event in iter(lambda: core.take(None), None) if isinstance(event, Message)]


def send(
    core: ClientCore, data: bytes, headers: dict[str, str] | None = None, service: Service = AGREED
) -> None:
    core.send(message_of("g", data, service, 3, False, headers))


def short(message: Message) -> tuple[bytes, dict[str, str]]:
    return message.data, dict(message.headers)


def test_a_message_with_headers_arrives_with_them_and_others_without() -> None:
    fake = FakeDaemon()
    anna, bert = member(fake, 1, "anna", "g"), member(fake, 2, "bert", "g")
    send(anna, b"one", {"k": "v", "größe": "7"})
    send(anna, b"two")
    send(anna, b"three", {})
    send(anna, b"four", {"k": "w"}, SAFE)
    fake.exchange(1, anna)
    fake.exchange(2, bert)

    expected = [(b"one", {"k": "v", "größe": "7"}), (b"two", {}), (b"three", {}), (b"four", {"k": "w"})]
    for core in (anna, bert):
        assert list(map(short, received(core))) == expected


def test_messages_with_headers_share_bundles_only_with_each_other() -> None:
    fake = FakeDaemon()
    anna = member(fake, 1, "anna", "g")
    for number in range(3):
        send(anna, b"with", {"n": str(number)})
    send(anna, b"without")
    assert anna.try_send("g", b"fast", AGREED, 3, False)
    for number in range(2):
        send(anna, b"with", {"n": str(number)})
    fake.exchange(1, anna)

    assert [len(part) for part in anna.take_many(100, None).parts] == [3, 2, 2]


def test_the_fast_path_decodes_headers_as_the_general_one() -> None:
    fake = FakeDaemon()
    anna, bert = member(fake, 1, "anna"), member(fake, 2, "bert", "g")
    for number in range(3):  # The first one teaches the head.
        send(anna, b"data", {"n": str(number)})
        fake.exchange(1, anna)
        fake.exchange(2, bert)
    send(anna, b"data")
    fake.exchange(1, anna)
    fake.exchange(2, bert)

    assert list(map(short, received(bert))) == [(b"data", {"n": str(number)}) for number in range(3)] + [
        (b"data", {})
    ]


def test_columns_say_that_they_have_envelopes_and_give_bodies_without() -> None:
    fake = FakeDaemon()
    anna = member(fake, 1, "anna", "g")
    for _ in range(20):
        send(anna, b"data", {"k": "v"})
    fake.exchange(1, anna)
    (run,) = anna.take_many(100, None).runs

    assert run.enveloped
    assert run.bodies() == [b"data"] * 20
    assert bytes(run.whole[run.offsets[0] : run.offsets[1]]) == encode_envelope({"k": "v"}) + b"data"
    assert run.messages()[7].headers == {"k": "v"}


def test_spools_get_bodies_without_headers() -> None:
    fake = FakeDaemon()
    anna = member(fake, 1, "anna", "g")
    send(anna, b"one", {"k": "v"})
    send(anna, b"three", {"k": "v"})
    fake.exchange(1, anna)
    builder = RunBuilder()
    builder.open("g")
    (run,) = builder.runs(anna.take_many(100, None))["g"]

    assert (list(run.ends), bytes(run.bodies), list(run.types)) == ([0, 3, 8], b"onethree", [3, 3])


def test_a_spread_client_gets_the_body_only() -> None:
    clients = SpreadConnections()
    old = clients.client(1, "old")
    old.join("g")
    old.view()
    anna = member(clients.fake, 2, "anna")
    send(anna, b"data", {"k": "v"})
    clients.fake.exchange(2, anna)

    assert old.message().body == b"data"


def test_a_malformed_envelope_of_another_client_is_delivered_as_data() -> None:
    fake = FakeDaemon()
    anna, bert = member(fake, 1, "anna"), member(fake, 2, "bert", "g")
    for body in (b"", b"\xff\xff\xff", encode_envelope({"k": "v"})[:-1]):
        anna.send(message_of("g", body, AGREED, 3, False)._replace(enveloped=True))
        fake.exchange(1, anna)
        fake.exchange(2, bert)

    assert list(map(short, received(bert))) == [
        (b"", {}),
        (b"\xff\xff\xff", {}),
        (encode_envelope({"k": "v"})[:-1], {}),
    ]
    assert bert.ended is None


@pytest.mark.parametrize(
    ("headers", "error", "text"),
    [
        ([("k", "v")], WrongType, "dict of str to str"),
        ({"k": 1}, WrongType, "'k' is int"),
        ({1: "v"}, WrongType, "type int"),
        ({"": "v"}, WrongValue, "a name of 0 bytes"),
        ({"n" * 65: "v"}, WrongValue, "1 to 64"),
        ({"k": "v" * 4097}, WrongValue, "4096 at most"),
        ({"hop-call": "v"}, WrongValue, "belong to hopring"),
        ({"k": "\ud800"}, WrongValue, "not UTF-8"),
        ({str(n): "v" for n in range(HEADERS_MAX + 1)}, WrongValue, "32 at most"),
        ({str(n): "v" * 3000 for n in range(3)}, WrongValue, "7168 bytes at most"),
    ],
)
def test_wrong_headers_are_refused_at_the_call(
    headers: dict[str, str], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        message_of("g", b"", AGREED, 0, False, headers)


def test_the_most_headers_that_are_allowed() -> None:
    most = ENVELOPE_BYTES_MAX - ENVELOPE_SPARE_BYTES
    headers = {"a": "v" * 4096, "b": "v" * (most - 4096 - 2 * (1 + 3))}

    assert message_of("g", b"data", AGREED, 0, False, headers).data.endswith(b"vdata")


def test_headers_are_a_value() -> None:
    one, other = Headers({"a": "1", "b": "2"}), Headers([("b", "2"), ("a", "1")])

    assert one == other == {"b": "2", "a": "1"}
    assert one != Headers({"a": "1"})
    assert hash(one) == hash(other)
    assert pickle.loads(pickle.dumps(one)) == one
    assert not NO_HEADERS
    with pytest.raises(TypeError):
        one["a"] = "2"  # type: ignore[index]
