"""Marks of batches in bundles: decoded to the same, without cost for other bundles, refused if malformed."""

from typing import Final

import pytest
from tests.support.decoding import Tally
from tests.unit.wire.bundles import encoded, reason_of, with_groups

from hopring.errors import Drop
from hopring.wire.batch_mark import APP_BYTES_MAX, BATCH_MAX, INDEXES, BatchMark
from hopring.wire.bundle import (
    BUNDLE_BYTES_MAX,
    BUNDLE_HEAD_BYTES,
    MESSAGE_BYTES_MAX,
    MESSAGES_MAX,
    BundleKey,
    decode_bundle,
    encode_bundle,
    peek_groups,
)

MARK_LENGTH_AT: Final = 3
MARK_AT: Final = BUNDLE_HEAD_BYTES + 2 * 4 + 2 + 1 + len(b"\x01g")
"""In a bundle of one message to g: after offsets, type, hints and names."""


def marked(app: str = "detector", batch: int = 7, index: int = 0) -> BundleKey:
    return with_groups("g").replace(mark=BatchMark(app, batch, index))


def test_a_mark_is_decoded_to_the_same_and_does_not_change_the_messages() -> None:
    bundle = decode_bundle(encoded(b"one", b"", b"three", key=marked(index=5)))

    assert bundle.key.mark == BatchMark("detector", 7, 5)
    assert bundle.key.mark.number == (7 << 32) + 5
    assert [bytes(one) for one in bundle.messages()] == [b"one", b"", b"three"]
    assert bundle.whole == encoded(b"one", b"", b"three", key=marked(index=5))
    assert peek_groups(bundle.whole) == ("g",)


def test_a_bundle_without_a_mark_has_no_bytes_for_it() -> None:
    buffer = encoded(b"x", key=with_groups("g"))

    assert decode_bundle(buffer).key.mark is None
    assert buffer[MARK_LENGTH_AT] == 0
    assert len(encoded(b"x", key=marked("a"))) == len(buffer) + 8 + 4 + 1


def test_limits_are_kept_at_their_edges() -> None:
    widest = marked("ü" * (APP_BYTES_MAX // 2), BATCH_MAX, INDEXES - MESSAGES_MAX)
    bodies = [b""] * (MESSAGES_MAX - 1) + [bytes(MESSAGE_BYTES_MAX)]
    buffer = encoded(*bodies, key=widest)

    assert decode_bundle(buffer).key == widest
    assert len(buffer) <= BUNDLE_BYTES_MAX <= 16 * 1024 * 1024
    for key in (
        marked("x" * 129),
        marked(""),
        marked("a\0b"),
        marked("\ud800"),
        marked(batch=BATCH_MAX + 1),
        marked(batch=-1),
        marked(index=INDEXES),
        marked(index=-1),
        with_groups("a", "b").replace(mark=BatchMark("x", 0)),
    ):
        with pytest.raises(AssertionError):
            encoded(b"", key=key)


@pytest.mark.parametrize(
    ("mark", "reason"),
    [
        (b"\0" * 12, Drop.LENGTH),  # No name.
        (b"\0" * 3, Drop.LENGTH),
        (b"\0" * 12 + b"x" * (APP_BYTES_MAX + 1), Drop.LENGTH),
        (b"\0" * 12 + b"x" * 243, Drop.LENGTH),
        (b"\xff" * 8 + b"\0" * 4 + b"x", Drop.LIMIT),  # Batch.
        ((BATCH_MAX + 1).to_bytes(8, "little") + b"\0" * 4 + b"x", Drop.LIMIT),
        (b"\0" * 12 + b"\xff", Drop.INCONSISTENT),
        (b"\0" * 12 + b"a\0b", Drop.INCONSISTENT),
    ],
)
def test_an_invalid_mark_is_refused(mark: bytes, reason: Drop) -> None:
    buffer = encoded(b"x", key=with_groups("g"))
    hostile = bytearray(buffer[:MARK_AT] + mark + buffer[MARK_AT:])
    hostile[MARK_LENGTH_AT] = len(mark)

    assert reason_of(hostile) is reason


def test_a_mark_that_runs_out_of_its_batch_or_into_the_bodies_is_refused() -> None:
    mark = b"\0" * 8 + b"\xff\xff\xff\xff" + b"x"  # The second message would have no index.
    start = encoded(b"", b"", key=with_groups("g"))
    hostile = bytearray(start + mark)
    hostile[MARK_LENGTH_AT] = len(mark)
    assert reason_of(hostile) is Drop.LIMIT

    longer = bytearray(encoded(b"x", key=marked()))
    longer[MARK_LENGTH_AT] += 1
    assert reason_of(longer) is Drop.LENGTH


def test_a_mark_for_several_groups_is_refused() -> None:
    buffer = encoded(b"", key=with_groups("a", "b"))
    hostile = bytearray(buffer + b"\0" * 12 + b"x")
    hostile[MARK_LENGTH_AT] = 13

    assert reason_of(hostile) is Drop.INCONSISTENT


def test_every_byte_of_a_marked_bundle_may_be_anything() -> None:
    buffer = encoded(b"one", b"two", key=marked())
    tally = Tally()
    for at in range(len(buffer)):
        for value in (0, 1, 0x7F, 0xFF):
            hostile = bytearray(buffer)
            hostile[at] = value
            with tally.attempt():
                bundle = decode_bundle(bytes(hostile))
                bodies = [bytes(one) for one in bundle.messages()]
                again = encode_bundle(bundle.key, bodies, bundle.types.tolist(), bundle.hints.tolist())
                assert again == bundle.whole
    tally.expect(1 / 3)
