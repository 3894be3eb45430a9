"""Arrow record batches, as Spark passes them to a sink."""

from typing import Any


def batch(*payloads: bytes | str, types: list[int | None] | None = None) -> Any:
    """One record batch; without types it has no such column."""
    import pyarrow as pa  # noqa: PLC0415  Tests that may be skipped for want of it import this module.

    columns: dict[str, Any] = {"payload": list(payloads)}
    return pa.RecordBatch.from_pydict(
        columns if types is None else {**columns, "type": pa.array(types, pa.int32())}
    )
