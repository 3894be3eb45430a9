"""One Spark session for all tests: Java takes seconds to start."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

SETTINGS = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "2"}


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    pytest.importorskip("pyspark", reason="needs Spark: make spark")
    from hopring.spark import session  # noqa: PLC0415  Only where it is installed.

    # Code that runs for milliseconds is not worth optimizing: that would take most of the time.
    os.environ["JDK_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=1"
    found = session("tests", "local[2]", settings=SETTINGS)
    yield found
    found.stop()


@pytest.fixture(scope="session")
def hopring(spark: Any) -> Any:
    """The session with our data source registered."""
    from hopring.spark import register  # noqa: PLC0415  Only where it is installed.

    register(spark)
    return spark
