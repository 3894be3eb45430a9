"""Ingest as a stream: a query for each spool, until somebody ends it or there is nothing more to read."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from pyspark.sql import SparkSession

from hopring.spark.pipeline.ingest import stream_records
from hopring.spark.pipeline.inputs import Wish
from hopring.spark.pipeline.store import CHECKPOINTS, Store

TRIGGER: Final = "5 seconds"
"""How often a batch is made while records come; each is a directory."""

LOOK_SECONDS: Final = 0.2

Say = Callable[[str], None]


def stream(spark: SparkSession, wish: Wish, store: Store, say: Say) -> None:
    """Reads on where the checkpoints of an earlier stream into this directory are, or from the beginning."""
    if not store.checkpoints.exists():
        store.remove("bronze/records")  # What a batch run has left there would be there twice.
    trigger: dict[str, Any] = {"availableNow": True} if wish.until_idle else {"processingTime": TRIGGER}
    with interrupted() as ended:
        queries = [stream_records(spark, spool, store, trigger) for spool in wish.spools]
        try:
            while any(query.isActive for query in queries) and not ended.is_set():
                say(_progress(queries, wish.until_idle))
                time.sleep(LOOK_SECONDS)
            for query in queries:
                if not query.isActive:
                    query.awaitTermination()  # Raises what ended it.
        finally:
            for query in queries:
                query.stop()


def forget(store: Store) -> None:
    """A batch run begins anew: what streams had read is of no use to later ones."""
    store.remove(CHECKPOINTS)


def _progress(queries: list[Any], until_idle: bool) -> str:
    last = [query.lastProgress for query in queries]
    batches = sum([one["batchId"] + 1 for one in last if one is not None])
    return f"streaming, batch {batches}" + (
        "" if until_idle else "; Ctrl-C ends it, and the later stages follow"
    )


@contextmanager
def interrupted() -> Iterator[threading.Event]:
    """Set when SIGINT or SIGTERM comes inside the block; elsewhere than in the main thread, never."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda *_: asked.set()) for number in numbers}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
