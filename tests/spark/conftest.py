"""One Spark session for all tests: Java takes seconds to start."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

QUICK = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "2"}
"""Settings for tests with many small queries, which only a session of their own has."""


@pytest.fixture(scope="session", autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A state directory of our own, for the processes of tests as well: sinks keep claims there."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="session")
def sessions(state: None) -> Iterator[tuple[Any, Any]]:
    """The session that users get, and one that is quick; one Java runs both, and both know our data source."""
    pytest.importorskip("pyspark", reason="needs Spark: make spark")
    from hopring.spark import register, session  # noqa: PLC0415  Only where it is installed.

    # Code that runs for milliseconds is not worth optimizing: that would take most of the time. Java gives its
    # quick compiler little room for code by default, and stops compiling when that is full.
    os.environ["JDK_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
    found = session("tests")
    quick = found.newSession()
    for name, value in QUICK.items():
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
    """A session with few partitions, for tests of what queries compute."""
    return sessions[1]


@pytest.fixture(scope="session")
def hopring(spark: Any) -> Any:
    """The quick session, in tests that use our data source."""
    return spark
