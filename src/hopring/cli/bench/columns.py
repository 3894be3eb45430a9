"""The marks of many messages at once, read from the column of bodies that they came in."""

from array import array
from functools import lru_cache

from hopring.cli.bench.board import MARK_BYTES
from hopring.client.runs import MessageRun
from hopring.client.sequence import EventSequence


def marks_of(batch: EventSequence) -> bytes:
    """The marks of all messages of a batch, in their order."""
    return b"".join([run_marks(run) for run in batch.runs])


def run_marks(run: MessageRun) -> bytes:
    """Those of the messages of a run."""
    offsets = run.offsets
    begin, end = offsets[0], offsets[-1]
    size_bytes, rest = divmod(end - begin, len(run))
    # Messages of a bench have one size; who sends something else is read one by one.
    even = size_bytes and not rest and not size_bytes % MARK_BYTES
    if not even or offsets.tobytes() != _even_offsets(begin, end, size_bytes):
        return b"".join([body[:MARK_BYTES] for body in run.bodies()])
    return run.whole[begin:end].cast("I")[:: size_bytes // MARK_BYTES].tobytes()


@lru_cache(maxsize=64)
def _even_offsets(begin: int, end: int, size_bytes: int) -> bytes:
    return array("i", range(begin, end + 1, size_bytes)).tobytes()
