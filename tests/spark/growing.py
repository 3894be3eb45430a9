"""Spools and a trace that grow step by step, for streams; and a stream as a process that can be killed.

python -m tests.spark.growing DIRECTORY REFRESH_SECONDS [SERVER]

The spools of two sites have many of the same messages, Unreliable ones, which have no place, and messages whose
copies in the other spool come an hour late. The trace has a history of the model as lines, a file for each
daemon, whose lines come unevenly, and another history as a Parquet file, which comes in the middle.
"""

import sys
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

from tests.unit.check.evs_model import run as run_model
from tests.unit.spark.spooling import VIEW

from hopring.check.trace import Event
from hopring.check.trace_files import write_json_lines, write_parquet
from hopring.ids import Place
from hopring.services import Service
from hopring.spool.record import GroupStep, RecordHeader, RecordKind, run_of
from hopring.spool.writer import SpoolOptions, SpoolWriter

SITES = ("eu", "us")
HOUR_US = 3_600_000_000
START_US = 1_700_000_000_000_000
SEED_LINES, SEED_FILE = 3, 5


@dataclass(frozen=True)
class Growing:
    """The input below a directory, and the place for the tables of a stream."""

    directory: Path

    @property
    def trace(self) -> Path:
        return self.directory / "trace"

    @property
    def out(self) -> Path:
        return self.directory / "out"

    def spool(self, site: str) -> Path:
        return self.directory / site

    def options(self, **more: Any) -> Any:
        """The options of a stream into this directory that ends when it has read everything."""
        from hopring.spark.pipeline import PipelineOptions, named_spools  # noqa: PLC0415  Needs the extra.

        usual = {"out": self.out, "stream": True, "until_idle": True, "batch_records_max": 60}
        spools = named_spools([str(self.spool(site)) for site in SITES if self.spool(site).exists()])
        return PipelineOptions(**{"spools": spools, "trace": self.trace, **usual, **more})

    def grow(self, step: int, steps: int, messages: int = 40) -> None:
        """Adds the records and the lines of one of so many steps."""
        for number, site in enumerate(SITES):
            with SpoolWriter(self.spool(site), "g", SpoolOptions(1000.0)) as writer:
                for at in range(messages // 10):
                    first = step * messages + at * 10
                    # Each site misses some messages of the other.
                    if (first // 10 + number) % 3:
                        writer.append([placed(first, START_US + step * HOUR_US + number)])
                writer.append([alone(step, START_US + step * HOUR_US)])
                if number and step:
                    writer.append([placed(step * messages - 10, START_US + (step - 1) * HOUR_US)])
        self._grow_trace(step, steps)

    def _grow_trace(self, step: int, steps: int) -> None:
        events = list(run_model(SEED_LINES).events)
        place = self.trace / "run=lines"
        place.mkdir(parents=True, exist_ok=True)
        if not step:
            return  # Daemons have not written anything yet.
        for daemon in sorted({event.process.daemon for event in events}):
            lines = lines_of([event for event in events if event.process.daemon == daemon])
            # Some daemons write faster than others; in the last step all have written everything.
            share = ((step + 1) / steps) ** Random(daemon).choice((0.5, 1.0, 2.0))
            upto = round(len(lines) * share)
            torn = lines[upto][:7] if upto < len(lines) else b""
            (place / f"{daemon}.jsonl").write_bytes(b"".join(lines[:upto]) + torn)
        if step == steps // 2:
            (self.trace / "run=file").mkdir()
            write_parquet(run_model(SEED_FILE).events, self.trace / "run=file" / "all.parquet")


def lines_of(events: list[Event]) -> list[bytes]:
    file = BytesIO()
    write_json_lines(events, file)
    return file.getvalue().splitlines(keepends=True)


def placed(first: int, at_us: int) -> Any:
    header = RecordHeader(
        *(RecordKind.MESSAGE, at_us, "#anna#eu1", ("g",), Service.SAFE),
        # Far apart, so that there are several files.
        Place(VIEW, first * 1000, 4),
        GroupStep(VIEW, first // 40),
    )
    return run_of(header, [b"%08d" % (first + at) for at in range(10)], [0] * 10)


def alone(step: int, at_us: int) -> Any:
    header = RecordHeader(RecordKind.MESSAGE, at_us, "#anna#eu1", ("g",), Service.UNRELIABLE)
    return run_of(header, [b"alone %d" % step] * 3, [1] * 3)


def main() -> None:
    """Runs the stream until it is idle; prints a line when it begins and at its end."""
    from hopring.spark import session  # noqa: PLC0415  Needs the extra.
    from hopring.spark.pipeline import Store, run  # noqa: PLC0415

    growing = Growing(Path(sys.argv[1]))
    spark = session("stream", remote=sys.argv[3]) if sys.argv[3:] else session("stream", "local[2]")
    store = Store(growing.out)
    store.open()
    print("begins", flush=True)
    run(spark, growing.options(refresh_seconds=float(sys.argv[2])), store)
    print("through", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
