"""The operations of a work queue, as they are in its log.

Invariants  `decode_job_operation` returns None for anything that is no operation of a queue.
"""

from typing import Final

import msgspec


class PutJob(msgspec.Struct, frozen=True, array_like=True, tag="p"):
    """A new job; after so many deliveries that were not done it is a dead letter."""

    data: bytes
    deliveries_max: int


class ClaimJob(msgspec.Struct, frozen=True, array_like=True, tag="c"):
    """A worker wants the job that waits for the longest time, for itself alone for a while."""

    worker: str
    visibility_us: int


class FinishJob(msgspec.Struct, frozen=True, array_like=True, tag="d"):
    """The job is done, if the claim still holds it."""

    job: int
    claim: int


class ReturnJob(msgspec.Struct, frozen=True, array_like=True, tag="r"):
    """The claim ends: its worker gives the job back, or its time is over."""

    job: int
    claim: int


class ExtendClaim(msgspec.Struct, frozen=True, array_like=True, tag="x"):
    """The time of the claim begins anew."""

    job: int
    claim: int


class ReviveJob(msgspec.Struct, frozen=True, array_like=True, tag="v"):
    """A dead letter waits again, as if it was new."""

    job: int


class DiscardJob(msgspec.Struct, frozen=True, array_like=True, tag="k"):
    """A dead letter is removed."""

    job: int


JobOperation = PutJob | ClaimJob | FinishJob | ReturnJob | ExtendClaim | ReviveJob | DiscardJob

_operations: Final = msgspec.msgpack.Decoder(JobOperation)


def encode_job_operation(operation: JobOperation) -> bytes:
    """The data of an operation of the log."""
    return msgspec.msgpack.encode(operation)


def decode_job_operation(data: bytes) -> JobOperation | None:
    """The operation in some data; None if it is none."""
    try:
        operation: JobOperation = _operations.decode(data)
    except (msgspec.DecodeError, ValueError):
        return None
    return operation
