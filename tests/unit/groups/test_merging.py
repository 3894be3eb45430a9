"""Bundles of a session that meet at its daemon go on as one, if they may."""

from typing import Final

import pytest

from hopring.groups.events import Send
from hopring.groups.sessions import MERGED_BYTES_MAX, BundleMerger
from hopring.ids import DaemonId, GroupName
from hopring.services import Service
from hopring.wire.batch_mark import BatchMark
from hopring.wire.bundle import MESSAGES_MAX, Run, decode_bundle, encode_bundle

RUN: Final = Run(DaemonId(1), 7, Service.AGREED, (GroupName("red"),))
BLUE: Final = RUN.replace(groups=(GroupName("blue"),))
BOTH: Final = RUN.replace(groups=(GroupName("red"), GroupName("blue")))


def send(*bodies: bytes, run: Run = RUN) -> Send:
    places = [0] * len(bodies) if run.mixed else b""
    return Send(7, run, encode_bundle(run, bodies, range(len(bodies)), [9] * len(bodies), places))


def merged(*sends: Send) -> tuple[int, list[tuple[tuple[str, ...], bytes]]]:
    """How many went together, and all messages of that."""
    merger = BundleMerger(sends[0])
    count = next((at for at, one in enumerate(sends[1:], 1) if not merger.add(one)), len(sends))
    bundle = decode_bundle(merger.send().bundle)
    assert bundle.hints.tolist() == [9] * len(bundle)
    return count, [(bundle.groups_of(at), bytes(body)) for at, body in enumerate(bundle.messages())]


def test_what_may_go_together_does_in_its_order() -> None:
    red, blue = RUN.groups, BLUE.groups

    assert merged(send(b"1")) == (1, [(red, b"1")])
    assert merged(send(b"1"), send(b"2", b"3")) == (2, [(red, b"1"), (red, b"2"), (red, b"3")])
    assert merged(send(b"1"), send(b"2", run=BLUE), send(b"3")) == (3, [(red, b"1"), (blue, b"2"), (red, b"3")])
    assert merged(send(b"1", run=BOTH), send(b"2", run=BOTH)) == (2, [(BOTH.groups, b"1"), (BOTH.groups, b"2")])


def test_types_stay_with_their_messages() -> None:
    merger = BundleMerger(send(b"1", b"2"))
    assert merger.add(send(b"3"))

    assert decode_bundle(merger.send().bundle).types.tolist() == [0, 1, 0]


FIFO: Final = RUN.replace(service=Service.FIFO)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (RUN, RUN.replace(service=Service.SAFE)),
        (RUN, RUN.replace(self_discard=True)),
        (RUN, RUN.replace(big_endian=True)),
        (RUN, RUN.replace(channel=1)),
        (RUN, RUN.replace(spread_bits=1)),
        (RUN, RUN.replace(spread_groups=bytes(32))),
        (RUN.replace(spread_bits=1), RUN),
        (RUN.replace(spread_groups=bytes(32)), RUN),
        (RUN, RUN.replace(mark=BatchMark("app", 1))),
        (RUN, BOTH),
        (BOTH, RUN),
        (RUN, BOTH.replace(mixed=True)),
        (FIFO, FIFO.replace(groups=BLUE.groups)),
        (RUN.replace(service=Service.UNRELIABLE), RUN.replace(service=Service.UNRELIABLE)),
    ],
)
def test_what_differs_too_much_goes_alone(first: Run, second: Run) -> None:
    count, _ = merged(send(b"1", run=first), send(b"2", run=second))

    assert count == 1


def test_fifo_messages_of_one_group_go_together() -> None:
    assert merged(send(b"1", run=FIFO), send(b"2", run=FIFO))[0] == 2


def test_a_merged_bundle_is_not_longer_than_it_should_be() -> None:
    long, half = bytes(MERGED_BYTES_MAX), bytes(MERGED_BYTES_MAX // 2 - 100)

    assert merged(send(long), send(b"short"))[0] == 1
    assert merged(send(b"short"), send(long))[0] == 1
    assert merged(send(half), send(half), send(half))[0] == 2
    assert merged(send(*[b""] * (MESSAGES_MAX - 3000)), *[send(*[b""] * 1000)] * 3)[0] == 1
