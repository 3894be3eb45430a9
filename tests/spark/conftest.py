"""One Spark session for all tests: Java takes seconds to start."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

SHUFFLES = {"spark.sql.shuffle.partitions": "2"}

# Code that runs for milliseconds is not worth optimizing: that would take most of the time. Java gives its
# quick compiler little room for code by default, and stops compiling when that is full. Collectors with threads
# of their own take a fifth more processor time for small heaps.
MEMORY = "3g"  # Several run side by side, and by default each takes half of the machine.
JAVA = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"


@pytest.fixture(scope="session", autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A quick Java, and our own state directory, where sinks keep claims; processes of tests inherit both."""
    os.environ["JDK_JAVA_OPTIONS"] = JAVA
    os.environ["HOPRING_SPARK_MEMORY"] = MEMORY
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="session")
def sessions(state: None) -> Iterator[tuple[Any, Any]]:
    """The session that users get, and one that is quick; one Java runs both, and both know our data source."""
    pytest.importorskip("pyspark", reason="needs Spark: make spark")
    from hopring.spark import register, session  # noqa: PLC0415  Only where it is installed.
    from hopring.spark.session import SMALL  # noqa: PLC0415

    found = session("tests")
    quick = found.newSession()
    # What a run over few rows has, for as long as the session: tests make many small queries.
    for name, value in (SMALL | SHUFFLES).items():
        quick.conf.set(name, value)
    register(found)
    register(quick)
    yield found, quick
    found.stop()


@pytest.fixture(scope="session")
def users(sessions: tuple[Any, Any]) -> Any:
    """The session that users get: `hopring.spark.session` without further settings."""
    return sessions[0]


@pytest.fixture(scope="session")
def spark(sessions: tuple[Any, Any]) -> Any:
    """A session for small queries, in which nothing is compiled: for tests of what queries compute."""
    return sessions[1]


@pytest.fixture(scope="session")
def hopring(spark: Any) -> Any:
    """The quick session, in tests that use our data source."""
    return spark
