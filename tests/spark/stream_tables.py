"""Content of a spool that is read as a stream, and the expected content."""

from pathlib import Path

from tests.spark.piping import TARGET

from hopring.spool.reading import bounds, read


def copied(root: Path) -> list[tuple[int, bytes]]:
    """Types and payloads in the target."""
    end = bounds(root / TARGET).end
    return [(record.type, record.data) for record in read(root / TARGET, 0, end)]


def expected(count: int) -> list[tuple[int, bytes]]:
    """Types and payloads that `fill` has written to the source."""
    return [(at % 10 % 7, b"%08d" % at) for at in range(count)]
