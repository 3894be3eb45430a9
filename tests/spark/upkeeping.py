"""A stream into a directory, with upkeep after every other batch, as a process that can be killed.

python -m tests.spark.upkeeping SPOOL OUT TURNS
"""

import sys
from contextlib import nullcontext
from pathlib import Path

from tests.support.waiting import until
from tests.unit.spark.spooling import fill

from hopring.spark import register, session
from hopring.spark.pipeline import PipelineOptions, Store, named_spools
from hopring.spark.pipeline.queries import OwnQueries
from hopring.spark.pipeline.upkeep import UpkeepLimits

GROUPS = ("one", "two")
PER_TURN = 20
SECONDS_MAX = 180.0


def main() -> None:
    """Appends to the spools and reads them, turn by turn; prints a line after the first turn and at its end."""
    spool, out, turns = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    for group in GROUPS:
        fill(spool, group, PER_TURN)
    store = Store(out)
    store.open()
    spark = session("upkeep", "local[2]")
    register(spark)
    limits = UpkeepLimits(batches_max=2)
    options = PipelineOptions(out, named_spools([str(spool)]), stream=True, until_idle=True, upkeep=limits)
    for turn in range(turns):
        for group in GROUPS:
            fill(spool, group, PER_TURN)
        queries = OwnQueries(spark, options, store, nullcontext(), lambda *_: None)
        until(queries.are_idle, seconds=SECONDS_MAX)
        queries.look()
        if not turn:
            print("moving", flush=True)
    print("through", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
