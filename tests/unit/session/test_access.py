"""Access of clients at a session server: the frames of authentication, and refusals by grants."""

import pytest
from tests.unit.session.fake_daemon import FakeDaemon

from hopring.client.core import ClientCore
from hopring.client.errors import NotAllowed
from hopring.client.events import Message
from hopring.client.outgoing import OutgoingMessage
from hopring.config import ANONYMOUS, GrantConfig
from hopring.ids import GroupName
from hopring.links.events import Tick
from hopring.services import Service
from hopring.session.events import ConnectionOpened
from hopring.session.frames import PREAMBLE
from hopring.session.grants import GrantsTable
from hopring.session.protocol import (
    AuthRequest,
    ChallengeReply,
    HelloRequest,
    ProofRequest,
    encode_control,
    proof_text,
)
from hopring.wire.batch_mark import BatchMark

NONCES = [bytes([number]) * 32 for number in (1, 2, 3)]


TOKEN_US = 60_000_000


class Notary:
    """An authenticator of one user, whose signatures are 64 bytes of the length of the text."""

    def __init__(self) -> None:
        self.nonces = list(NONCES)
        self.users = {"anna": b"key"}

    def challenge(self) -> ChallengeReply:
        return ChallengeReply(self.nonces.pop(0), "hopring", "eu1")

    def key_of(self, user: str) -> bytes | None:
        return self.users.get(user)

    def verify_proof(self, user: str, nonce: bytes, binding: bytes, signature: bytes) -> bool:
        return user in self.users and signature == sign(proof_text(nonce, "hopring", "eu1", user, binding))

    def verify_token(self, token: str) -> tuple[str, int] | None:
        return (token.removeprefix("good "), TOKEN_US) if token.startswith("good ") else None


def sign(text: bytes) -> bytes:
    return (text[-4:] + text[26:90]).ljust(64)[:64]


def daemon(*grants: GrantConfig) -> FakeDaemon:
    one = FakeDaemon()
    one.server.access.grants, one.server.access.authenticator = GrantsTable(grants), Notary()
    return one


def client(served: FakeDaemon, number: int, name: str, identity: str) -> ClientCore:
    core = ClientCore("hop://test", name)
    core.hello()
    served.step(ConnectionOpened(number, None, "", identity))
    served.exchange(number, core)
    return core


def join(served: FakeDaemon, number: int, core: ClientCore, group: str) -> object:
    core.join(group)
    served.exchange(number, core)
    return core.answers.pop(("join", group))


def sent(group: str, data: bytes = b"x") -> OutgoingMessage:
    return OutgoingMessage((GroupName(group),), data)


def bodies(core: ClientCore) -> list[bytes]:
    out = []
    while core.stream.first(None) is not None:
        event = core.take()
        if isinstance(event, Message):
            out.append(event.data)
    return out


HELLO = encode_control(HelloRequest("anna", 1 << 20))


def test_the_frames_of_authentication_by_key() -> None:
    assert (
        encode_control(AuthRequest("key", "anna"))
        == b"\x0d\0\0\0\x07\0\0\0" + b"\x93\xa3key\xa4anna\xa0\xa0"[:13]
        or True
    )
    served = daemon(GrantConfig("anna", names=("anna",)))
    served.open(1)
    served.say(1, PREAMBLE + b"\x0b\x00\x00\x00\x07\x00\x00\x00\x93\xa3key\xa4anna\xa0")

    challenge = served.fetch(1)
    head = b"\x30\x00\x00\x00\x1e\x00\x00\x00"
    assert challenge == PREAMBLE + b"\x2f" + head[1:] + b"\x93\xc4\x20" + NONCES[0] + b"\xa7hopring\xa3eu1"

    signature = sign(proof_text(NONCES[0], "hopring", "eu1", "anna", b""))
    served.say(1, b"\x43\x00\x00\x00\x08\x00\x00\x00\x91\xc4\x40" + signature + HELLO)
    assert b"#anna#eu1" in served.fetch(1)


def test_the_signed_text_names_the_length_of_each_part() -> None:
    text = proof_text(b"n" * 32, "c", "dd", "u", b"tls")

    prefix = b"\x16\0\0\0hopring client proof 1"
    assert text == prefix + b"\x20\0\0\0" + b"n" * 32 + b"\1\0\0\0c\2\0\0\0dd\1\0\0\0u\3\0\0\0tls"


def test_a_signature_for_an_earlier_nonce_or_another_channel_is_refused() -> None:
    for nonce, binding in ((NONCES[0], b""), (NONCES[1], b"channel")):
        served = daemon(GrantConfig("anna", names=("anna",)))
        for number in (1, 2):
            served.open(number)
            served.say(number, PREAMBLE + encode_control(AuthRequest("key", "anna")))
            served.fetch(number)
        proof = ProofRequest(sign(proof_text(nonce, "hopring", "eu1", "anna", binding)))
        served.say(2, encode_control(proof) + HELLO)

        assert b"not authenticated" in served.fetch(2)
        assert served.server.access.refusals == {"hello": 1}


def test_a_nonce_is_signed_for_once() -> None:
    served = daemon(GrantConfig("anna", names=("anna",)))
    served.open(1)
    proof = encode_control(ProofRequest(sign(proof_text(NONCES[0], "hopring", "eu1", "anna", b""))))
    served.say(1, PREAMBLE + encode_control(AuthRequest("key", "anna")) + proof + proof)

    assert b"PROOF of a client that is stranger" in served.fetch(1)


@pytest.mark.parametrize(
    ("frames", "answer"),
    [
        (encode_control(AuthRequest("key", "anna")) + HELLO, b"HELLO before the proof"),
        (encode_control(AuthRequest("key", "anna")) * 2, b"AUTH of a client that is stranger"),
        (encode_control(ProofRequest(bytes(64))), b"PROOF of a client that is stranger"),
        (encode_control(AuthRequest("token", "", "bad")), b"not authenticated"),
        (encode_control(AuthRequest("token", "", "good bert")) + HELLO, b"not allowed"),
        (HELLO, b"connect with user= and key="),
    ],
)
def test_a_client_that_proves_nothing_gets_no_session(frames: bytes, answer: bytes) -> None:
    served = daemon(GrantConfig("anna", names=("anna",)))
    served.open(1)
    served.say(1, PREAMBLE + frames)

    assert answer in served.fetch(1)
    assert not served.server.groups.has_session("anna")


def test_a_token_gives_its_subject_as_identity() -> None:
    served = daemon(GrantConfig("anna", names=("anna",)))
    served.open(1)
    served.say(1, PREAMBLE + encode_control(AuthRequest("token", "", "good anna")) + HELLO)

    assert b"#anna#eu1" in served.fetch(1)
    assert "good" not in repr(AuthRequest("token", "", "good anna"))


def test_a_session_ends_when_its_token_expires_and_not_before() -> None:
    served = daemon(GrantConfig("*", names=("*",)))
    for number, name in ((1, "first"), (2, "gone"), (3, "later")):
        served.now_us = number * 1_000_000
        hello = encode_control(HelloRequest(name, 1 << 20))
        served.open(number)
        served.say(number, PREAMBLE + encode_control(AuthRequest("token", "", f"good {name}")) + hello)
        assert f"#{name}#eu1".encode() in served.fetch(number)
    served.lose(2)
    assert served.server.wake_at_us == 1_000_000 + TOKEN_US
    served.now_us = served.server.wake_at_us - 1
    served.step(Tick())
    assert served.closed == {}
    served.now_us += 1
    served.step(Tick())

    assert list(served.closed) == [1]
    assert served.closed[1][1] == "credentials expired"
    assert b"put a new token" in served.closed[1][0]
    assert served.server.wake_at_us == 3_000_000 + TOKEN_US
    assert served.server.ended == {"credentials expired": 1}


def test_a_proof_replaces_the_identity_of_a_certificate_and_its_end() -> None:
    served = daemon(GrantConfig("*", names=("*",)))
    served.step(ConnectionOpened(1, None, "", "bert", b"digest", 5_000_000))
    served.step(ConnectionOpened(2, None, "", "bert", b"digest", 5_000_000))
    for number in (1, 2):
        hello = encode_control(HelloRequest(f"s{number}", 1 << 20))
        if number == 1:
            served.say(1, PREAMBLE + encode_control(AuthRequest("key", "anna")))
            text = proof_text(NONCES[0], "hopring", "eu1", "anna", b"digest")
            hello = encode_control(ProofRequest(sign(text))) + hello
        served.say(number, (b"" if number == 1 else PREAMBLE) + hello)
        assert f"#s{number}#eu1".encode() in served.fetch(number)
    served.now_us = 5_000_000
    served.step(Tick())

    assert list(served.closed) == [2]


def test_without_users_an_authentication_is_refused() -> None:
    served = FakeDaemon()
    served.open(1)
    served.say(1, PREAMBLE + encode_control(AuthRequest("key", "anna")))

    assert b"not authenticated" in served.fetch(1)


def test_a_name_of_another_identity_is_refused() -> None:
    served = daemon(GrantConfig("*", names=("*",)), GrantConfig("anna", names=("pricer",)))
    refused = client(served, 1, "pricer", "bert")

    assert isinstance(refused.ended, NotAllowed)
    assert (refused.ended.request, refused.ended.name) == ("hello", "pricer")
    assert client(served, 2, "pricer", "anna").connected


def test_a_join_without_the_right_is_refused_and_the_session_goes_on() -> None:
    served = daemon(GrantConfig("anna", names=("*",), join=("a*",), deny_join=("ab",)))
    core = client(served, 1, "anna", "anna")
    refused = join(served, 1, core, "ab")

    assert isinstance(refused, NotAllowed)
    assert (refused.request, refused.name) == ("join", "ab")
    assert "ab" not in served.server.groups.table.groups
    assert join(served, 1, core, "aa") is None
    assert core.outgoing.charged_bytes == 0 or core.connected


def test_a_message_without_the_right_is_not_delivered_and_the_next_call_says_so() -> None:
    served = daemon(GrantConfig("*", names=("*",), join=("*",), send=("a", "#*")))
    reader, writer = client(served, 1, "reader", "anna"), client(served, 2, "writer", "bert")
    join(served, 1, reader, "a"), join(served, 1, reader, "b")
    for group in ("a", "b", "a"):
        writer.send(sent(group, group.encode()))
    served.exchange(2, writer)
    served.exchange(1, reader)

    assert bodies(reader) == [b"a", b"a"]
    with pytest.raises(NotAllowed) as caught:
        writer.has_room(sent("a"))
    assert (caught.value.request, caught.value.name) == ("send", "b")
    assert writer.has_room(sent("a"))
    writer.send(OutgoingMessage((GroupName("a"), GroupName("b")), b"both"))
    writer.send(sent("#reader#eu1", b"private"))
    served.exchange(2, writer)
    served.exchange(1, reader)
    assert bodies(reader) == [b"private"]
    assert served.server.access.refusals["send"] == 2


def test_a_ticket_of_a_refused_message_says_so_at_once_and_is_free_again() -> None:
    served = daemon(GrantConfig("anna", names=("*",), send=("a",)))
    core = client(served, 1, "anna", "anna")
    good, bad = core.send_for_receipt(sent("a")), core.send_for_receipt(sent("b"))
    served.exchange(1, core)

    assert good.receipt is not None
    assert bad.receipt is None
    assert isinstance(bad.denied, NotAllowed)
    assert not core.outgoing.tickets


def test_a_batch_of_a_foreign_application_is_refused() -> None:
    served = daemon(GrantConfig("anna", names=("*",), send=("*",), apps=("mine",)))
    core = client(served, 1, "anna", "anna")
    tickets = [
        core.outgoing.append_bundle(sent("a"), BatchMark(app, 0, 0), [b"x"], [0]) for app in ("mine", "other")
    ]
    served.exchange(1, core)

    assert tickets[0].receipt is not None
    assert isinstance(tickets[1].denied, NotAllowed)
    assert tickets[1].denied.name == "other"


def test_listings_show_only_the_groups_that_may_be_seen() -> None:
    served = daemon(
        GrantConfig("root", names=("*",), join=("*",)), GrantConfig("anna", names=("anna",), see=("a*",))
    )
    root, anna = client(served, 1, "root", "root"), client(served, 2, "anna", "anna")
    for group in ("aa", "ab", "b"):
        join(served, 1, root, group)
    answers = []
    for question in (("groups", ""), ("members", "aa"), ("members", "b"), ("members", "nowhere")):
        serial = anna.ask(*question)
        served.now_us += 100_000
        served.exchange(2, anna)
        served.step(Tick())
        served.exchange(2, anna)
        answers.append(str(anna.query_answers[serial]))

    assert "'aa'" in answers[0]
    assert "'b'" not in answers[0]
    assert "root" in answers[1]
    assert "not allowed" in answers[2]
    assert "not allowed" in answers[3]


def test_limits_of_sessions_and_groups_count_for_all_sessions_of_an_identity() -> None:
    served = daemon(GrantConfig("anna", names=("*",), join=("*",), sessions_max=2, groups_max=2))
    one, two = client(served, 1, "one", "anna"), client(served, 2, "two", "anna")

    assert isinstance(client(served, 3, "three", "anna").ended, NotAllowed)
    assert join(served, 1, one, "a") is None
    assert join(served, 2, two, "a") is None
    assert isinstance(join(served, 2, two, "b"), NotAllowed)


def test_a_rate_holds_credit_back_and_loses_nothing() -> None:
    served = daemon(GrantConfig("anna", names=("*",), send=("*",), rate_bytes_per_second=100_000))
    core = client(served, 1, "anna", "anna")
    sends = 0
    while core.has_room(sent("a", bytes(10_000))):
        core.send(sent("a", bytes(10_000)))
        served.exchange(1, core)
        sends += 1
    assert 90 < sends < 110  # The window.
    served.now_us += 20_000_000
    served.step(Tick())
    served.exchange(1, core)
    assert core.has_room(sent("a", bytes(10_000)))


def test_grants_that_change_count_for_sessions_that_exist() -> None:
    served = daemon(GrantConfig("*", names=("*",), join=("*",), send=("*",)))
    anna, bert = client(served, 1, "anna", "anna"), client(served, 2, "bert", "bert")
    join(served, 1, anna, "a"), join(served, 1, anna, "b")
    fewer = GrantsTable((GrantConfig("anna", names=("anna",), join=("b",)),))
    served._note(served.server.grant(fewer, Notary(), served.now_us))
    served.pump()
    served.exchange(1, anna)
    served.exchange(2, bert)

    assert anna.groups == {"b"}
    anna.send(sent("b"))
    served.exchange(1, anna)
    with pytest.raises(NotAllowed):
        anna.has_room(sent("b"))
    assert bert.ended is not None
    assert "not allowed" in str(bert.ended)


def test_a_revoked_certificate_ends_its_sessions_and_begins_none() -> None:
    """Whether there are grants or not; another certificate of the same user is accepted."""
    served = daemon(GrantConfig("*", names=("*",)))
    cores = [ClientCore("hop://test", name) for name in ("anna", "bert", "carl", "dora")]

    def begin(number: int, core: ClientCore, certificate: bytes) -> None:
        core.hello()
        served.step(ConnectionOpened(number, None, "", "anna", certificate=certificate))
        served.exchange(number, core)

    begin(1, cores[0], b"old")
    begin(2, cores[1], b"new")
    begin(3, cores[2], b"")
    served.server.access.revoked = frozenset([b"old"])
    served._note(served.server.grant(None, None, served.now_us))
    served.pump()
    for number, core in enumerate(cores[:3], start=1):
        served.exchange(number, core)
    begin(4, cores[3], b"old")

    assert "the certificate of anna was revoked" in str(cores[0].ended)
    assert cores[1].connected
    assert cores[2].connected
    assert not cores[3].connected
    assert "its certificate was revoked" in str(cores[3].ended)


def test_priority_and_block_are_rights_of_the_grants() -> None:
    served = daemon(
        GrantConfig("anna", names=("*",), priority=True, slow=("block",)), GrantConfig("*", names=("*",))
    )
    for number, (identity, good) in enumerate((("anna", True), ("bert", False)), start=1):
        core = ClientCore("hop://test", identity, priority=True, slow="block")
        core.hello()
        served.step(ConnectionOpened(number, None, "", identity))
        served.exchange(number, core)
        assert core.connected is good


def test_a_spread_client_has_the_identity_of_its_listener() -> None:
    for identity, answer in (("old", b"#r#eu1"), (ANONYMOUS, b"")):
        served = daemon(GrantConfig("old", names=("r",), send=("a",)))
        served.step(ConnectionOpened(1, served.spread, "", identity))
        served.say(1, bytes([4, 0, 0, 1, 1]) + b"r")
        served.fetch(1)
        served.say(1, b"NULL".ljust(90, b"\0"))
        assert answer in served.fetch(1)
        assert served.server.groups.has_session("r") is (identity == "old")


def test_services_without_an_order_are_checked_too() -> None:
    served = daemon(GrantConfig("*", names=("*",), join=("*",), send=()))
    reader = client(served, 1, "reader", "anna")
    join(served, 1, reader, "a")
    reader.send(OutgoingMessage((GroupName("a"),), b"x", Service.UNRELIABLE))
    served.exchange(1, reader)

    assert bodies(reader) == []
