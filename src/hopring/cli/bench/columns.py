"""The marks of many messages at once, read from the column of bodies that they came in."""

from hopring.cli.bench.board import MARK_BYTES
from hopring.client.batch import Batch
from hopring.wire.bundle import Bundle


def marks_of(batch: Batch) -> bytes:
    """The marks of all messages of a batch, in their order.

    Whoever reads a whole session gets a bundle's messages in a row, so one step goes from bundle to bundle.
    """
    out = []
    taken, at = batch.taken, 0
    while at < len(taken):
        one = taken[at]
        if one.origin is None:  # No message.
            at += 1
            continue
        first = one.order - one.origin.first
        last = min(len(one.origin.bundle), first + len(taken) - at)
        out.append(bundle_marks(one.origin.bundle, first, last))
        at += last - first
    return b"".join(out)


def bundle_marks(bundle: Bundle, first: int, last: int) -> bytes:
    """Those of some messages of a bundle, `last` not included."""
    begin, end = bundle.offsets[first], bundle.offsets[last]
    size_bytes, rest = divmod(end - begin, last - first)
    each = bundle.offsets[first + 1] - begin
    if (
        rest or each != size_bytes or size_bytes % MARK_BYTES
    ):  # Messages of a bench have one size, others may not.
        return b"".join([bytes(bundle.message(index)[:MARK_BYTES]) for index in range(first, last)])
    column = bundle.bodies[begin:end].cast("I")
    return column[:: size_bytes // MARK_BYTES].tobytes()
