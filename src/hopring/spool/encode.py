"""Encodes runs of records as blocks: one block per append, several if it is long. No state, no I/O.

Bodies are not copied: a block is a list of buffers for one gather write.
"""

from array import array
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from hopring.spool.format import (
    BLOCK_RECORDS_MAX,
    BODIES_BYTES_MAX,
    ENVELOPED,
    HEAD_BYTES,
    MORE,
    NO_BATCH,
    NO_STRING,
    RUN_COLUMNS,
    BlockHead,
    crc32,
    pack_head,
    padded,
)
from hopring.spool.record import RecordRun

BLOCK_BYTES_AIM: Final = 4 * 1024 * 1024
"""A long append is cut at about this size. One flipped bit spoils one block, and readers hold one in memory."""

NAMES_BETWEEN: Final = "\0"
"""Separates names of groups, which cannot contain it."""


class AppendMark(NamedTuple):
    """An application and the number of its batch. Each batch is appended once, however often it is sent."""

    app: str
    batch: int


class EncodedBlock(NamedTuple):
    """A block to be written: its head, and all its bytes."""

    head: BlockHead
    buffers: list[bytes | memoryview]


def encode_append(
    runs: Sequence[RecordRun], first: int, key: int, time_us: int, mark: AppendMark | None = None
) -> list[EncodedBlock]:
    """The blocks of an append; all but the last have the flag MORE."""
    parts = list(_parts(runs))
    blocks: list[EncodedBlock] = []
    for number, part in enumerate(parts, 1):
        flags = 0 if number == len(parts) else MORE
        blocks.append(_encode_block(part, first, key, time_us, mark, flags))
        first = blocks[-1].head.end
    return blocks


def _parts(runs: Sequence[RecordRun]) -> Iterator[list[RecordRun]]:
    """Groups the runs so that each group fits into a block."""
    part: list[RecordRun] = []
    records = size_bytes = 0
    for whole in runs:
        for run in _pieces(whole):
            run_bytes = _size_bytes(run)
            if part and (records + len(run) > BLOCK_RECORDS_MAX or size_bytes + run_bytes > BLOCK_BYTES_AIM):
                yield part
                part, records, size_bytes = [], 0, 0
            part.append(run)
            records += len(run)
            size_bytes += run_bytes
    if part:
        yield part


def _pieces(run: RecordRun) -> Iterator[RecordRun]:
    """Splits a run that is too long for a block; each piece keeps the number of its first message."""
    if len(run) <= BLOCK_RECORDS_MAX and _size_bytes(run) <= BLOCK_BYTES_AIM:
        if len(run):
            yield run
        return
    ends: Sequence[int] = run.ends
    if run.envelopes:
        ends = [end + more for end, more in zip(ends, _ends_of(run.envelopes), strict=True)]
    start = 0
    for here in range(1, len(run) + 1):
        full = here - start == BLOCK_RECORDS_MAX
        if here == len(run) or full or ends[here + 1] - ends[start] > BLOCK_BYTES_AIM:
            yield part_of(run, start, here)
            start = here


def _size_bytes(run: RecordRun) -> int:
    """The bytes of bodies and envelopes."""
    return run.ends[-1] - run.ends[0] + sum(map(len, run.envelopes))


def part_of(run: RecordRun, start: int, end: int) -> RecordRun:
    """The records of a run from index `start` to before `end`."""
    columns = run.types[start:end], run.ends[start : end + 1], run.bodies
    return RecordRun(run.header, *columns, run.number + start, run.envelopes[start:end])


def _encode_block(
    runs: list[RecordRun], first: int, key: int, time_us: int, mark: AppendMark | None, flags: int
) -> EncodedBlock:
    strings: dict[str, int] = {}
    app = NO_STRING if mark is None else strings.setdefault(mark.app, 0)
    run_columns = _run_columns(runs, strings)
    ends, types = _record_columns(runs)
    assert ends[-1] <= BODIES_BYTES_MAX, "a message is half of it at most"
    names = [name.encode() for name in strings]
    columns = [*run_columns, ends, types, array("I", _ends_of(names)), array("B", b"".join(names))]
    front = b"".join([_pad(bytes(column)) for column in columns])
    bodies = [memoryview(run.bodies)[run.ends[0] : run.ends[-1]] for run in runs]
    tail = bytes(padded(ends[-1]) - ends[-1])
    if any(any(run.envelopes) for run in runs):
        flags |= ENVELOPED
        tail += _envelopes(runs)
    crc = crc32(front)
    for body in bodies:
        crc = crc32(body, crc)
    crc = crc32(tail, crc)
    head = BlockHead(
        flags=flags,
        size_bytes=HEAD_BYTES + len(front) + ends[-1] + len(tail),
        records=len(types),
        runs=len(runs),
        strings=len(names),
        strings_bytes=sum(map(len, names)),
        bodies_bytes=ends[-1],
        first=first,
        batch=NO_BATCH if mark is None else mark.batch,
        time_us=time_us,
        key=key,
        app=app,
        crc=crc,
    )
    return EncodedBlock(head, [pack_head(head) + front, *bodies, tail])


def _run_columns(runs: list[RecordRun], strings: dict[str, int]) -> "list[array[int]]":
    rows = []
    end = 0
    for run in runs:
        end += len(run)
        rows.append(_row(run, end, strings))
    return [array(code, column) for (_, code), column in zip(RUN_COLUMNS, zip(*rows, strict=True), strict=True)]


def _row(run: RecordRun, end: int, strings: dict[str, int]) -> tuple[int, ...]:
    """The values of a run in the order of RUN_COLUMNS."""
    header = run.header
    place, view = header.place, header.view
    names = NAMES_BETWEEN.join(header.groups)
    return (
        *(place.view.counter, place.view.nonce, place.lts, view.view.counter, view.view.nonce),
        *(view.step, header.time_us),
        *(end, run.number),
        strings.setdefault(header.sender, len(strings)),
        strings.setdefault(names, len(strings)),
        *(place.view.representative, place.site, view.view.representative),
        *(header.kind, header.service or 0),
    )


def _record_columns(runs: list[RecordRun]) -> "tuple[array[int], array[int]]":
    ends = array("i", [0])
    types = array("H")
    for run in runs:
        shift = ends[-1] - run.ends[0]
        ends.extend(run.ends[1:] if not shift else [end + shift for end in run.ends[1:]])
        types.extend(run.types)
    return ends, types


def _envelopes(runs: list[RecordRun]) -> bytes:
    """The part behind the bodies: the ends of all envelopes, and the envelopes."""
    all_of: list[bytes] = []
    for run in runs:
        all_of += run.envelopes or [b""] * len(run)
    return _pad(array("I", _ends_of(all_of)).tobytes()) + _pad(b"".join(all_of))


def _ends_of(names: Sequence[bytes]) -> list[int]:
    ends = [0]
    for name in names:
        ends.append(ends[-1] + len(name))
    return ends


def _pad(column: bytes) -> bytes:
    return column + bytes(-len(column) % 8)
