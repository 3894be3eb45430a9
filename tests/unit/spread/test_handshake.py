"""The handshake byte by byte, with the bytes of real clients and daemons."""

import pytest

from hopring.spread.handshake import (
    METHODS_BYTES,
    ClientHandshake,
    Handshake,
    HandshakeCode,
    HandshakeRequest,
    HandshakeStage,
    SpreadRefusal,
    SpreadWelcome,
)

ALICE = bytes.fromhex("05 00 01 01 05") + b"alice"
NULL = b"NULL".ljust(METHODS_BYTES, b"\0")


def sent(handshake: Handshake) -> bytes:
    out, handshake.out = b"".join(handshake.out), []
    return out


def test_a_client_of_today() -> None:
    handshake = Handshake()

    assert handshake.receive(ALICE) == HandshakeRequest("alice", membership=True, priority=False)
    handshake.accept("#alice#d1")
    assert sent(handshake) == b"\x05NULL "
    assert handshake.receive(NULL) is None
    assert sent(handshake) == bytes.fromhex("01 05 00 01 09") + b"#alice#d1"
    assert handshake.stage is HandshakeStage.DONE
    assert handshake.rest == b""


def test_every_byte_may_come_by_itself_and_what_follows_is_kept() -> None:
    handshake = Handshake()
    wants = [handshake.receive(bytes([one])) for one in ALICE]
    assert wants == [None] * (len(ALICE) - 1) + [HandshakeRequest("alice", True, False)]
    handshake.accept("#alice#d1")
    for one in NULL[:-1]:
        handshake.receive(bytes([one]))
    assert handshake.rest == NULL[:-1]
    handshake.receive(NULL[-1:] + b"frame")

    assert handshake.stage is HandshakeStage.DONE
    assert handshake.rest == b"frame"


def test_an_eager_client_may_say_everything_at_once() -> None:
    handshake = Handshake()
    handshake.receive(ALICE + NULL + b"frame")
    handshake.accept("#alice#d1")

    assert handshake.stage is HandshakeStage.DONE
    assert handshake.rest == b"frame"


@pytest.mark.parametrize(
    ("hello", "welcome"),
    [
        # 3.15 sends and gets a patch byte and no methods; 3.10 has neither.
        (bytes([3, 15, 0, 1, 3]) + b"old", bytes([1, 5, 0, 1, 7]) + b"#old#d1"),
        (bytes([3, 10, 1, 4]) + b"olde", bytes([1, 5, 0, 8]) + b"#olde#d1"),
        (bytes([3, 14, 0, 4]) + b"olde", bytes([1, 5, 0, 8]) + b"#olde#d1"),
    ],
)
def test_old_clients_are_accepted_at_once(hello: bytes, welcome: bytes) -> None:
    handshake = Handshake()
    wants = handshake.receive(hello)
    assert wants is not None
    handshake.accept(f"#{wants.user}#d1")

    assert sent(handshake) == welcome
    assert handshake.stage is HandshakeStage.DONE


@pytest.mark.parametrize(
    ("hello", "answer"),
    [
        (bytes([2, 1]), b"\xf9"),
        (bytes([3, 0]), b"\xf9"),
        (bytes([5, 0, 1, 0, 11]), b"\xfb"),
        (bytes([5, 0, 1, 0, 255]), b"\xfb"),
        (bytes([5, 0, 1, 0, 1]) + b"#", b"\xfb"),
        (bytes([5, 0, 1, 0, 2]) + b"a ", b"\xfb"),
        (bytes([5, 0, 1, 0, 2]) + b"a\x7f", b"\xfb"),
        (bytes([5, 0, 1, 0, 2]) + b"\xc3\xa4", b"\xfb"),
    ],
)
def test_an_invalid_hello_is_refused_with_its_code(hello: bytes, answer: bytes) -> None:
    handshake = Handshake()

    assert handshake.receive(hello) is None
    assert sent(handshake) == answer
    assert handshake.stage is HandshakeStage.REFUSED


@pytest.mark.parametrize("code", [HandshakeCode.NOT_UNIQUE, HandshakeCode.QUOTA])
def test_the_daemon_may_refuse_a_name(code: HandshakeCode) -> None:
    handshake = Handshake()
    handshake.receive(ALICE)
    handshake.refuse(code)

    assert sent(handshake) == code.to_bytes(1, signed=True)


@pytest.mark.parametrize(
    "methods", [bytes(METHODS_BYTES), b"IP".ljust(METHODS_BYTES, b"\0"), b"NULL".ljust(30, b"\0") + b"X" * 60]
)
def test_a_method_that_is_not_offered_is_refused(methods: bytes) -> None:
    handshake = Handshake()
    handshake.receive(ALICE)
    handshake.accept("#alice#d1")
    sent(handshake)
    handshake.receive(methods)

    assert sent(handshake) == b"\xf7"
    assert handshake.stage is HandshakeStage.REFUSED


@pytest.mark.parametrize(
    ("flags", "membership", "priority"), [(0, False, False), (1, True, False), (0x11, True, True)]
)
def test_flags(flags: int, membership: bool, priority: bool) -> None:
    assert Handshake().receive(bytes([5, 0, 1, flags, 0])) == HandshakeRequest("", membership, priority)


CHOSEN_NULL = b"NULL" + bytes(86)
FACTS = bytes.fromhex("05 00 01 09")


def told(*answers: bytes) -> ClientHandshake:
    """A greeting that got these bytes, each of exactly the size that it asked for."""
    greeting = ClientHandshake(b"alice", True, False)
    for one in answers:
        assert greeting.wants == len(one)
        greeting.receive(one)
    return greeting


def test_the_handshake_of_a_real_client() -> None:
    greeting = told()
    assert greeting.out == bytes.fromhex("05 00 01 01 05 61 6c 69 63 65")
    greeting.receive(b"\x05")
    assert (greeting.out, greeting.wants) == (b"", 5)
    greeting.receive(b"NULL ")
    assert (greeting.out, greeting.wants) == (CHOSEN_NULL, 1)
    greeting.receive(b"\x01")
    assert (greeting.out, greeting.wants) == (b"", 4)
    greeting.receive(FACTS)
    assert (greeting.wants, greeting.result) == (9, None)
    greeting.receive(b"#alice#d1")
    assert (greeting.wants, greeting.result) == (0, SpreadWelcome((5, 0, 1), b"#alice#d1"))


@pytest.mark.parametrize(
    ("membership", "priority", "flags"),
    [(False, False, 0), (True, False, 1), (True, True, 0x11), (False, True, 0x10)],
)
def test_flags_of_the_hello(membership: bool, priority: bool, flags: int) -> None:
    assert ClientHandshake(b"", membership, priority).out == bytes([5, 0, 1, flags, 0])


@pytest.mark.parametrize("offer", [b"NULL ", b"NULL IP ", b"IP NULL ", b"PAM NULL"])
def test_the_null_method_is_preferred(offer: bytes) -> None:
    assert told(bytes([len(offer)]), offer).out == CHOSEN_NULL


def test_the_ip_method_is_the_second_choice() -> None:
    assert told(b"\x07", b"PAM IP ").out == b"IP" + bytes(88)


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        ([b"\xfd"], -3),
        ([b"\xfb"], -5),
        ([b"\xfa"], -6),
        ([b"\xf9"], -7),
        ([b"\xf7"], -9),
        ([b"\x00"], -9),  # No method is allowed.
        ([b"\x05", b"NULLX"], -9),
        ([b"\x04", b"PAM "], -9),
        ([b"\x05", b"NULL ", b"\xf7"], -9),
        # Replies that no daemon sends.
        ([b"\x80"], -8),
        ([b"\xff"], -8),
        ([b"\xf1"], -8),  # Would overflow a buffer that is too short.
        ([bytes([91])], -8),
        ([b"\x05", b"NULL ", b"\x00"], -8),
        ([b"\x05", b"NULL ", b"\x02"], -8),
        ([b"\x05", b"NULL ", b"\x7f"], -8),
        ([b"\x05", b"NULL ", b"\x01", bytes([5, 0, 1, 0])], -8),
        ([b"\x05", b"NULL ", b"\x01", bytes([5, 0, 1, 32])], -8),
        ([b"\x05", b"NULL ", b"\x01", bytes([5, 0, 1, 255])], -8),
        ([b"\x05", b"NULL ", b"\x01", bytes([5, 0x80, 1, 9])], -8),
        ([b"\x05", b"NULL ", b"\x01", bytes([3, 0, 99, 9])], -7),
        ([b"\x05", b"NULL ", b"\x01", bytes([2, 127, 0, 9])], -7),
        ([b"\x05", b"NULL ", b"\x01", FACTS, b"#ali\0e#d1"], -8),
    ],
)
def test_refusals(answers: list[bytes], code: int) -> None:
    greeting = told(*answers)

    assert (greeting.result, greeting.wants, greeting.out) == (SpreadRefusal(code), 0, b"")


def test_the_oldest_daemon_that_is_good_enough() -> None:
    greeting = told(b"\x05", b"NULL ", b"\x01", bytes([3, 1, 0, 4]), b"#a#d")

    assert greeting.result == SpreadWelcome((3, 1, 0), b"#a#d")


@pytest.mark.parametrize("user", [b"", b"alice"])
def test_our_own_daemon_accepts_this_handshake(user: bytes) -> None:
    client, server = ClientHandshake(user, True, True), Handshake()
    assert server.receive(client.out) == HandshakeRequest(user.decode(), True, True)
    server.accept("#alice#d1")
    while client.wants:
        said, server.out = b"".join(server.out), []
        while said:
            part, said = said[: client.wants], said[client.wants :]
            client.receive(part)
            server.receive(client.out)

    assert client.result == SpreadWelcome((5, 0, 1), b"#alice#d1")
    assert server.stage is HandshakeStage.DONE
