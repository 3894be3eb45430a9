"""The client's side of the handshake, byte by byte, and against our own daemon's side."""

import pytest

from hopring.spread.greeting import Greeting, Refusal, Welcome
from hopring.spread.handshake import Handshake, Stage, Wants

NULL = b"NULL" + bytes(86)
FACTS = bytes.fromhex("05 00 01 09")


def told(*answers: bytes) -> Greeting:
    """A greeting that got these, each of exactly the size that it wanted."""
    greeting = Greeting(b"alice", True, False)
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
    assert (greeting.out, greeting.wants) == (NULL, 1)
    greeting.receive(b"\x01")
    assert (greeting.out, greeting.wants) == (b"", 4)
    greeting.receive(FACTS)
    assert (greeting.wants, greeting.result) == (9, None)
    greeting.receive(b"#alice#d1")
    assert (greeting.wants, greeting.result) == (0, Welcome((5, 0, 1), b"#alice#d1"))


@pytest.mark.parametrize(
    ("membership", "priority", "flags"),
    [(False, False, 0), (True, False, 1), (True, True, 0x11), (False, True, 0x10)],
)
def test_flags(membership: bool, priority: bool, flags: int) -> None:
    assert Greeting(b"", membership, priority).out == bytes([5, 0, 1, flags, 0])


@pytest.mark.parametrize("offer", [b"NULL ", b"NULL IP ", b"IP NULL ", b"PAM NULL"])
def test_the_method_in_which_nothing_is_said_is_chosen(offer: bytes) -> None:
    assert told(bytes([len(offer)]), offer).out == NULL


def test_the_address_is_the_second_best() -> None:
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
        # What no daemon says.
        ([b"\x80"], -8),
        ([b"\xff"], -8),
        ([b"\xf1"], -8),  # Would be a buffer that is too short.
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

    assert (greeting.result, greeting.wants, greeting.out) == (Refusal(code), 0, b"")


def test_the_oldest_daemon_that_is_good_enough() -> None:
    greeting = told(b"\x05", b"NULL ", b"\x01", bytes([3, 1, 0, 4]), b"#a#d")

    assert greeting.result == Welcome((3, 1, 0), b"#a#d")


@pytest.mark.parametrize("user", [b"", b"alice"])
def test_our_own_daemon_understands_it(user: bytes) -> None:
    client, server = Greeting(user, True, True), Handshake()
    assert server.receive(client.out) == Wants(user.decode(), True, True)
    server.accept("#alice#d1")
    while client.wants:
        said, server.out = b"".join(server.out), []
        while said:
            part, said = said[: client.wants], said[client.wants :]
            client.receive(part)
            server.receive(client.out)

    assert client.result == Welcome((5, 0, 1), b"#alice#d1")
    assert server.stage is Stage.DONE
