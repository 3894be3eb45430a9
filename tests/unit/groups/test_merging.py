"""Bundles of a session that wait together at its daemon are merged, if they may be."""

from typing import Final

import pytest

from hopring.groups.events import Send
from hopring.groups.sessions import MERGED_BYTES_MAX, BundleMerger
from hopring.ids import DaemonId, GroupName
from hopring.services import Service
from hopring.wire.batch_mark import BatchMark
from hopring.wire.bundle import MESSAGES_MAX, BundleKey, decode_bundle, encode_bundle

KEY: Final = BundleKey(DaemonId(1), 7, Service.AGREED, (GroupName("red"),))
BLUE: Final = KEY.replace(groups=(GroupName("blue"),))
BOTH: Final = KEY.replace(groups=(GroupName("red"), GroupName("blue")))


def send(*bodies: bytes, key: BundleKey = KEY) -> Send:
    places = [0] * len(bodies) if key.mixed else b""
    return Send(7, key, encode_bundle(key, bodies, range(len(bodies)), [9] * len(bodies), places))


def merged(*sends: Send) -> tuple[int, list[tuple[tuple[str, ...], bytes]]]:
    """The number of bundles that were merged, and all messages in the result."""
    merger = BundleMerger(sends[0])
    count = next((at for at, one in enumerate(sends[1:], 1) if not merger.add(one)), len(sends))
    bundle = decode_bundle(merger.send().bundle)
    assert bundle.hints.tolist() == [9] * len(bundle)
    return count, [(bundle.groups_of(at), bytes(body)) for at, body in enumerate(bundle.messages())]


def test_bundles_that_may_be_merged_are_merged_in_order() -> None:
    red, blue = KEY.groups, BLUE.groups

    assert merged(send(b"1")) == (1, [(red, b"1")])
    assert merged(send(b"1"), send(b"2", b"3")) == (2, [(red, b"1"), (red, b"2"), (red, b"3")])
    assert merged(send(b"1"), send(b"2", key=BLUE), send(b"3")) == (3, [(red, b"1"), (blue, b"2"), (red, b"3")])
    assert merged(send(b"1", key=BOTH), send(b"2", key=BOTH)) == (2, [(BOTH.groups, b"1"), (BOTH.groups, b"2")])


def test_types_stay_with_their_messages() -> None:
    merger = BundleMerger(send(b"1", b"2"))
    assert merger.add(send(b"3"))

    assert decode_bundle(merger.send().bundle).types.tolist() == [0, 1, 0]


FIFO: Final = KEY.replace(service=Service.FIFO)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (KEY, KEY.replace(service=Service.SAFE)),
        (KEY, KEY.replace(self_discard=True)),
        (KEY, KEY.replace(big_endian=True)),
        (KEY, KEY.replace(channel=1)),
        (KEY, KEY.replace(spread_bits=1)),
        (KEY, KEY.replace(spread_groups=bytes(32))),
        (KEY.replace(spread_bits=1), KEY),
        (KEY.replace(spread_groups=bytes(32)), KEY),
        (KEY, KEY.replace(mark=BatchMark("app", 1))),
        (KEY, BOTH),
        (BOTH, KEY),
        (KEY, BOTH.replace(mixed=True)),
        (FIFO, FIFO.replace(groups=BLUE.groups)),
        (KEY.replace(service=Service.UNRELIABLE), KEY.replace(service=Service.UNRELIABLE)),
    ],
)
def test_bundles_that_differ_too_much_are_not_merged(first: BundleKey, second: BundleKey) -> None:
    count, _ = merged(send(b"1", key=first), send(b"2", key=second))

    assert count == 1


def test_fifo_bundles_of_one_group_are_merged() -> None:
    assert merged(send(b"1", key=FIFO), send(b"2", key=FIFO))[0] == 2


def test_a_merged_bundle_is_not_longer_than_it_should_be() -> None:
    long, half = bytes(MERGED_BYTES_MAX), bytes(MERGED_BYTES_MAX // 2 - 100)

    assert merged(send(long), send(b"short"))[0] == 1
    assert merged(send(b"short"), send(long))[0] == 1
    assert merged(send(half), send(half), send(half))[0] == 2
    assert merged(send(*[b""] * (MESSAGES_MAX - 3000)), *[send(*[b""] * 1000)] * 3)[0] == 1
