"""The handshake byte by byte, with the bytes of real clients and daemons."""

import pytest

from hopring.spread.handshake import METHODS_BYTES, Code, Handshake, Stage, Wants

ALICE = bytes.fromhex("05 00 01 01 05") + b"alice"
NULL = b"NULL".ljust(METHODS_BYTES, b"\0")


def sent(handshake: Handshake) -> bytes:
    out, handshake.out = b"".join(handshake.out), []
    return out


def test_a_client_of_today() -> None:
    handshake = Handshake()

    assert handshake.receive(ALICE) == Wants("alice", membership=True, priority=False)
    handshake.accept("#alice#d1")
    assert sent(handshake) == b"\x05NULL "
    assert handshake.receive(NULL) is None
    assert sent(handshake) == bytes.fromhex("01 05 00 01 09") + b"#alice#d1"
    assert handshake.stage is Stage.DONE
    assert handshake.rest == b""


def test_every_byte_may_come_by_itself_and_what_follows_is_kept() -> None:
    handshake = Handshake()
    wants = [handshake.receive(bytes([one])) for one in ALICE]
    assert wants == [None] * (len(ALICE) - 1) + [Wants("alice", True, False)]
    handshake.accept("#alice#d1")
    for one in NULL[:-1]:
        handshake.receive(bytes([one]))
    assert handshake.rest == NULL[:-1]
    handshake.receive(NULL[-1:] + b"frame")

    assert handshake.stage is Stage.DONE
    assert handshake.rest == b"frame"


def test_an_eager_client_may_say_everything_at_once() -> None:
    handshake = Handshake()
    handshake.receive(ALICE + NULL + b"frame")
    handshake.accept("#alice#d1")

    assert handshake.stage is Stage.DONE
    assert handshake.rest == b"frame"


@pytest.mark.parametrize(
    ("hello", "welcome"),
    [
        # 3.15 sends and gets a patch byte and no methods; 3.10 has none of both.
        (bytes([3, 15, 0, 1, 3]) + b"old", bytes([1, 5, 0, 1, 7]) + b"#old#d1"),
        (bytes([3, 10, 1, 4]) + b"olde", bytes([1, 5, 0, 8]) + b"#olde#d1"),
        (bytes([3, 14, 0, 4]) + b"olde", bytes([1, 5, 0, 8]) + b"#olde#d1"),
    ],
)
def test_old_clients_are_welcome_at_once(hello: bytes, welcome: bytes) -> None:
    handshake = Handshake()
    wants = handshake.receive(hello)
    assert wants is not None
    handshake.accept(f"#{wants.user}#d1")

    assert sent(handshake) == welcome
    assert handshake.stage is Stage.DONE


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
def test_what_cannot_be_is_refused_with_its_code(hello: bytes, answer: bytes) -> None:
    handshake = Handshake()

    assert handshake.receive(hello) is None
    assert sent(handshake) == answer
    assert handshake.stage is Stage.REFUSED


@pytest.mark.parametrize("code", [Code.NOT_UNIQUE, Code.QUOTA])
def test_the_daemon_may_refuse_a_name(code: Code) -> None:
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
    assert handshake.stage is Stage.REFUSED


@pytest.mark.parametrize(
    ("flags", "membership", "priority"), [(0, False, False), (1, True, False), (0x11, True, True)]
)
def test_flags(flags: int, membership: bool, priority: bool) -> None:
    assert Handshake().receive(bytes([5, 0, 1, flags, 0])) == Wants("", membership, priority)
