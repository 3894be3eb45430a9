"""Rows of a stream that come late: which, and why. No pyspark.

Times of records, and of each run of the trace, are each one *clock*. Its watermark is its newest time less a
span. A minute that the watermark has passed is closed, and rows of it that come afterwards are late. All
sources of a clock share the watermark, so one that stands still does not hold it back.
"""

from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from hopring.spark.pipeline.ledger import StreamLedger

MINUTE_US: Final = 60_000_000
RECORDS_CLOCK: Final = "records"


class Arrivals(msgspec.Struct, frozen=True):
    """New rows of one source in one minute."""

    clock: str  # Rows of one clock share a watermark.
    run: str
    name: str  # Of the spool or the daemon.
    group: str
    minute_us: int
    rows: int
    oldest_us: int
    newest_us: int

    @property
    def source(self) -> str:
        return f"{self.clock}/{self.name}/{self.group}"


def trace_clock(run: str) -> str:
    """The name of the clock of a run of the trace."""
    return f"trace/{run}"


def late_rows(ledger: StreamLedger, arrived: list[Arrivals], late_us: int) -> list[dict[str, Any]]:
    """Those of the new rows whose minute the watermark had passed before they came, and why."""
    found = []
    for one in arrived:
        newest = ledger.newest_us.get(one.clock)
        if newest is None or one.minute_us + MINUTE_US > newest - late_us:
            continue
        found.append(
            {
                "run": one.run,
                "source": "records" if one.clock == RECORDS_CLOCK else "trace",
                "name": one.name,
                "group": one.group,
                "minute": datetime.fromtimestamp(one.minute_us / 1_000_000, UTC),
                "rows": one.rows,
                "late_seconds": (newest - late_us - one.oldest_us) / 1_000_000,
                "reason": _reason(ledger.sources.get(one.source), newest - late_us),
            }
        )
    return found


def _reason(own_newest_us: int | None, watermark_us: int) -> str:
    if own_newest_us is None:
        return "first rows of this source: it was added, or its files came, after others had been read"
    if own_newest_us < watermark_us:
        return "this source was behind: it had nothing newer when the others had gone on"
    return "out of order: newer rows of this source had come before, so its clock was set back"


def learn(ledger: StreamLedger, arrived: list[Arrivals]) -> None:
    """Notes the newest times of these rows, by clock and by source."""
    for one in arrived:
        for known, name in ((ledger.newest_us, one.clock), (ledger.sources, one.source)):
            known[name] = max(one.newest_us, known.get(name, one.newest_us))
