"""A query from a spool to another one, or to a live group, as a process that can be killed.

python -m tests.spark.piping ROOT CHECKPOINT OFFSETS_PER_BATCH [DAEMON]
"""

import sys
from typing import Any

from hopring.spark import register, session

SOURCE, TARGET, APP = "from", "to", "pipe"
FILLING = 1500
"""Bytes appended to each payload for a live group, so that a batch has more than one bundle."""


def pipe(spark: Any, root: str, checkpoint: str, per_batch: int, app: str = APP, **options: str) -> Any:
    """Starts the query, which ends when all present records have been copied; options are the source's."""
    read = spark.readStream.format("hopring").option("groups", SOURCE).option("maxOffsetsPerTrigger", per_batch)
    write = (
        read.options(**options)
        .load(root)
        .select("payload", "type")
        .writeStream.format("hopring")
        .option("group", TARGET)
    )
    write = write.option("txnAppId", app).option("checkpointLocation", checkpoint)
    return write.trigger(availableNow=True).start(root)


def live(spark: Any, root: str, checkpoint: str, per_batch: int, daemon: str) -> Any:
    """Starts the same query to a live group, with longer payloads."""
    read = spark.readStream.format("hopring").option("groups", SOURCE).option("maxOffsetsPerTrigger", per_batch)
    longer = f"concat(cast(payload as string), repeat('.', {FILLING})) as payload"
    write = read.load(root).selectExpr(longer, "type").writeStream.format("hopring").option("group", TARGET)
    write = write.option("txnAppId", APP).option("checkpointLocation", checkpoint).option("daemon", daemon)
    return write.trigger(availableNow=True).start()


def main() -> None:
    """Prints a line when the query runs, when its first batch is done, and at its end."""
    root, checkpoint, per_batch, *daemon = sys.argv[1:]
    spark = session("pipe", "local[2]")
    register(spark)
    query = (live if daemon else pipe)(spark, root, checkpoint, int(per_batch), *daemon)
    print("running", flush=True)
    while query.isActive and not query.recentProgress:
        query.awaitTermination(0.1)
    print("moving", flush=True)
    query.awaitTermination()
    print("through", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
