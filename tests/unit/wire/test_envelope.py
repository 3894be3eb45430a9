"""Envelopes: headers in front of a body, and what counts as none."""

from random import Random

import pytest
from tests.unit.wire.bundles import KEY, encoded, reason_of

from hopring.errors import Drop
from hopring.wire.bundle import decode_bundle
from hopring.wire.envelope import (
    ENVELOPE_BYTES_MAX,
    HEADER_NAME_BYTES_MAX,
    HEADER_VALUE_BYTES_MAX,
    HEADERS_MAX,
    decode_envelope,
    encode_envelope,
    envelope_bytes,
)

SMALL = encode_envelope({"k": "v"})


@pytest.mark.parametrize(
    "headers",
    [
        {"k": "v"},
        {"k": ""},
        {"größe": "übergroß", "b": "2"},
        {"n" * HEADER_NAME_BYTES_MAX: "v" * HEADER_VALUE_BYTES_MAX},
        {str(number): "x" * 100 for number in range(HEADERS_MAX)},
    ],
)
def test_headers_come_back_and_the_data_begins_behind_them(headers: dict[str, str]) -> None:
    envelope = encode_envelope(headers)

    assert decode_envelope(envelope + b"data") == (headers, len(envelope))
    assert envelope_bytes(envelope + b"data") == len(envelope)


def test_its_bytes() -> None:
    assert bytes.fromhex("06 00  01  01  01 00") + b"kv" == SMALL


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x06\x00",
        SMALL[:-1],
        b"\x01\x00\x00",  # No headers.
        b"\x06\x00\x02\x01\x01\x00kv",  # One header is missing.
        b"\x05\x00\x01\x01\x01\x00kv",  # The envelope ends within a value.
        b"\x07\x00\x01\x01\x01\x00kv!",  # A byte too many.
        b"\x06\x00\x01\x00\x02\x00kv",  # No name.
        b"\x06\x00\x01\x01\x01\x00\xffv",  # A name that is not UTF-8.
        b"\x0b\x00\x02\x01\x01\x00kv\x01\x01\x00kw",  # A name twice.
        (ENVELOPE_BYTES_MAX + 1).to_bytes(2, "little") + bytes(ENVELOPE_BYTES_MAX + 1),
        b"\x61\x00\x21" + b"".join([b"\x01\x00\x00" + bytes([48 + at]) for at in range(24)]),
    ],
)
def test_a_malformed_envelope_is_none(body: bytes) -> None:
    assert decode_envelope(body) is None


def test_random_bytes_and_damaged_envelopes_never_raise() -> None:
    dice = Random(7)
    accepted = 0
    for _ in range(5_000):
        body = bytearray(encode_envelope({"name": "value", "b": "ü"}) + b"data")
        body[dice.randrange(len(body))] = dice.randrange(256)
        accepted += decode_envelope(bytes(body)) is not None
        decode_envelope(dice.randbytes(dice.randrange(40)))

    assert 1_000 < accepted < 5_000


def test_a_bundle_says_that_its_bodies_have_envelopes_and_is_otherwise_the_same() -> None:
    plain, enveloped = encoded(b"one", b"two"), encoded(b"one", b"two", key=KEY.replace(enveloped=True))

    assert [at for at in range(len(plain)) if plain[at] != enveloped[at]] == [1]
    assert plain[1] ^ enveloped[1] == 0x10
    assert decode_bundle(enveloped).key.enveloped
    assert not decode_bundle(plain).key.enveloped
    assert decode_bundle(enveloped).messages() == [b"one", b"two"]


def test_bundles_with_unknown_flags_or_with_envelopes_of_spread_clients_are_refused() -> None:
    unknown = bytearray(encoded(b"one"))
    unknown[1] |= 0x80
    spread = bytearray(encoded(b"one", key=KEY.replace(spread_bits=3)))
    spread[1] |= 0x10

    assert reason_of(unknown) is Drop.INCONSISTENT
    assert reason_of(spread) is Drop.INCONSISTENT
