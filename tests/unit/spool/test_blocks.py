"""Blocks: decoding returns what was encoded, and any damage is detected."""

from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.spool.drawn_runs import names, some_runs

from hopring.ids import DaemonId, Incarnation, Place, ViewId
from hopring.services import Service
from hopring.spool.decode import SpoolBlock, decode_block
from hopring.spool.encode import BLOCK_BYTES_AIM, AppendMark, EncodedBlock, encode_append
from hopring.spool.format import BLOCK_RECORDS_MAX, HEAD_BYTES
from hopring.spool.record import RecordHeader, RecordKind, RecordRun, SpoolRecord, run_of
from hopring.wire.envelope import decode_envelope, encode_envelope

KEY = 0xC0FFEE


def joined(block: EncodedBlock) -> bytes:
    return b"".join(block.buffers)


def decoded(block: bytes) -> SpoolBlock:
    found = decode_block(block, 0, KEY)
    assert isinstance(found, SpoolBlock), found
    return found


def headers_of(envelope: bytes) -> dict[str, str]:
    found = decode_envelope(envelope) if envelope else None
    return {} if found is None else found[0]


def records_of(runs: list[RecordRun], first: int) -> list[SpoolRecord]:
    rows = [
        (
            *(run.number + at, kind, bytes(run.bodies[run.ends[at] : run.ends[at + 1]]), run.header),
            headers_of(run.envelopes[at]) if run.envelopes else {},
        )
        for run in runs
        for at, kind in enumerate(run.types)
    ]
    return [SpoolRecord(first + at, *row) for at, row in enumerate(rows)]


@pytest.mark.slow
@given(some_runs(), st.integers(0, 2**60), st.none() | st.builds(AppendMark, names, st.integers(0, 2**62)))
def test_appended_records_are_decoded_to_the_same(
    runs: list[RecordRun], first: int, mark: AppendMark | None
) -> None:
    (block,) = encode_append(runs, first, KEY, 17, mark)

    back = decoded(joined(block))

    assert back.records() == records_of(runs, first)
    assert back.mark == mark
    assert (back.head.first, back.head.end) == (first, first + sum(map(len, runs)))
    assert back.head.size_bytes == len(joined(block)) == len(joined(block)) // 8 * 8


@pytest.mark.slow
@given(some_runs(), st.integers(0, 40), st.integers(0, 40))
def test_a_part_of_a_block_can_be_read(runs: list[RecordRun], start: int, more: int) -> None:
    (block,) = encode_append(runs, 7, KEY, 17)

    part = decoded(joined(block)).records(start, start + more)

    assert part == [one for one in records_of(runs, 7) if start <= one.offset < start + more]


def small(*envelopes: bytes) -> bytes:
    place = Place(ViewId(3, DaemonId(1), Incarnation(99)), 1234, 2)
    its = RecordHeader(RecordKind.MESSAGE, 1_700_000_000_000_000, "#a#b", ("g", "h"), Service.SAFE, place)
    return joined(
        encode_append(
            [run_of(its, [b"one", b"", b"three"], [1, 2, 3], envelopes)], 5, KEY, 17, AppendMark("app", 4)
        )[0]
    )


def test_headers_of_messages_follow_the_bodies_and_nothing_does_without_them() -> None:
    first = encode_envelope({"source": "desk 7", "key": "EURUSD"})

    with_headers, without = small(first, b"", encode_envelope({"key": ""})), small()

    assert [dict(one.headers) for one in decoded(with_headers).records()] == [
        {"source": "desk 7", "key": "EURUSD"},
        {},
        {"key": ""},
    ]
    assert [one.data for one in decoded(with_headers).records()] == [b"one", b"", b"three"]
    assert small(b"", b"", b"") == without
    assert all(not one.headers for one in decoded(without).records())


def test_a_long_append_with_headers_is_cut_by_the_size_of_both() -> None:
    envelope = encode_envelope({str(at): "x" * 4_000 for at in range(2)})
    count = 2 * BLOCK_BYTES_AIM // len(envelope)
    run = run_of(RecordHeader(RecordKind.MESSAGE, 0), [b"x"] * count, None, [envelope] * count)

    blocks = encode_append([run], 0, KEY, 0)

    assert len(blocks) == 3
    assert all(block.head.size_bytes <= BLOCK_BYTES_AIM * 1.01 for block in blocks)
    assert sum(len(one.headers) == 2 for block in blocks for one in decoded(joined(block)).records()) == count


@pytest.mark.parametrize("headers", [(), (encode_envelope({"a": "b"}), b"", b"")])
def test_every_truncation_is_detected(headers: tuple[bytes, ...]) -> None:
    whole = small(*headers)
    decoded(whole)

    for size in range(len(whole)):
        assert isinstance(decode_block(whole[:size], 0, KEY), str), size


@pytest.mark.parametrize("headers", [(), (encode_envelope({"a": "b"}), b"", b"")])
def test_every_flipped_bit_is_detected(headers: tuple[bytes, ...]) -> None:
    whole = small(*headers)

    for at in range(len(whole)):
        for bit in range(8):
            spoiled = bytearray(whole)
            spoiled[at] ^= 1 << bit
            assert isinstance(decode_block(bytes(spoiled), 0, KEY), str), (at, bit)


@settings(max_examples=300)
@given(st.binary(max_size=300))
def test_random_bytes_are_not_a_block(noise: bytes) -> None:
    assert isinstance(decode_block(noise, 0, KEY), str)
    assert isinstance(decode_block(b"HBLK" + noise, 0, KEY), str)


def test_a_block_of_another_spool_is_refused() -> None:
    assert decode_block(small(), 0, KEY + 1) == "a block of another spool"


def test_bodies_and_slices_of_bundles_are_written_without_a_copy() -> None:
    bodies = memoryview(b"xxone-two-yy")
    run = RecordRun(RecordHeader(RecordKind.MESSAGE, 0), array("H", [0, 0]), [2, 6, 10], bodies, number=3)

    (block,) = encode_append([run], 0, KEY, 0)

    assert bytes(block.buffers[1]) == b"one-two-"
    assert isinstance(block.buffers[1], memoryview)
    assert [(one.number, one.data) for one in decoded(joined(block)).records()] == [(3, b"one-"), (4, b"two-")]


@pytest.mark.slow
def test_a_long_append_is_several_blocks_and_all_but_the_last_say_so() -> None:
    big = [bytes(BLOCK_BYTES_AIM // 3)] * 7
    many = [b"x"] * (BLOCK_RECORDS_MAX + 10)
    its = RecordHeader(RecordKind.MESSAGE, 0)

    blocks = encode_append(
        [run_of(its, big), run_of(its, many), run_of(its, [b"last"])], 100, KEY, 0, AppendMark("a", 1)
    )

    assert [block.head.more for block in blocks] == [True] * (len(blocks) - 1) + [False]
    assert [block.head.records for block in blocks] == [3, 3, 1, BLOCK_RECORDS_MAX, 11]
    back = [record for block in blocks for record in decoded(joined(block)).records()]
    assert [one.data for one in back] == [*big, *many, b"last"]
    assert [one.offset for one in back] == list(range(100, 100 + len(back)))
    assert [one.number for one in back] == [*range(len(big)), *range(len(many)), 0]
    assert all(decoded(joined(block)).mark == AppendMark("a", 1) for block in blocks)


def test_a_body_of_the_largest_message_fits() -> None:
    (block,) = encode_append(
        [run_of(RecordHeader(RecordKind.MESSAGE, 0), [bytes(16 * 1024 * 1024)])], 0, KEY, 0
    )

    assert decoded(joined(block)).head.bodies_bytes == 16 * 1024 * 1024


@pytest.mark.parametrize("typecode", ["H", "B"])
def test_the_columns_begin_at_multiples_of_eight(typecode: str) -> None:
    block = decoded(small())

    assert HEAD_BYTES % 8 == 0
    assert all(section.at % 8 == 0 for section in block.places.values())
    assert block.bodies_at % 8 == 0
    assert any(section.typecode == typecode for section in block.places.values())
