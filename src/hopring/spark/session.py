"""Makes Spark sessions that are quiet, find their Python and Java, and use UTC.

A session runs on this machine, on a cluster (`master`) or behind Spark Connect (`remote`); jobs are the same
for all. Without an argument, Spark's own configuration decides, and without one it runs on this machine.

The Java process inherits stderr when it starts and prints to it before any setting takes effect. So stderr is
redirected to the log file while the session starts, and Java keeps it.
"""

import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hopring.spark.errors import NoSpark, SparkError, log_file, readable
from hopring.spark.java import ensure_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEMORY_VARIABLE: Final = "HOPRING_SPARK_MEMORY"
MEMORY_MBYTES_MIN: Final = 1_024
MEMORY_MBYTES_MAX: Final = 8_192
LOOPBACK: Final = "127.0.0.1"
_LOG_SETTINGS: Final = Path(__file__).with_name("log4j2.properties")

_RELUCTANT: Final = " ".join(
    (
        "-XX:+IgnoreUnrecognizedVMOptions",
        *("-XX:Tier4InvocationThreshold=50000", "-XX:Tier4MinInvocationThreshold=6000"),
        *("-XX:Tier4CompileThreshold=150000", "-XX:Tier4BackEdgeThreshold=400000"),
    )
)
"""Delays Java's optimizing compiler by a factor of ten.

A job of a few minutes plans a hundred queries, each with slightly different code; optimizing that code takes
longer than it saves. The loops over rows still get hot enough to be compiled.
"""

EVERYWHERE: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
"""Settings that our jobs rely on, wherever they run."""


def session(
    app: str, master: str | None = None, remote: str | None = None, settings: Mapping[str, str] | None = None
) -> "SparkSession":
    """The existing Spark session, or a new one for a job of this name."""
    if master is not None and remote is not None:
        raise SparkError("both a master and a remote were given", "give one of them")
    must_be_installed()
    remote = remote or (None if master else os.environ.get("SPARK_REMOTE"))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # Otherwise workers use the python3 of the PATH.
    _silence_python()
    if remote is not None:
        return _connected(app, remote, dict(settings or {}))
    return _started(app, master, dict(settings or {}))


def must_be_installed() -> None:
    """Raises NoSpark if PySpark is not installed."""
    if find_spec("pyspark") is None:
        raise NoSpark("PySpark is not installed", "pip install 'hopring[spark,jdk]'")


def _connected(app: str, remote: str, settings: dict[str, str]) -> "SparkSession":
    if find_spec("grpc") is None:
        raise NoSpark(f"Spark Connect at {remote} needs grpcio", "pip install 'hopring[connect]'")
    from pyspark.sql import SparkSession  # noqa: PLC0415  An extra, and slow to load.

    with readable(f"Spark Connect at {remote}"):
        builder = SparkSession.builder.appName(app).remote(remote)
        found = builder.config(map=EVERYWHERE | settings).getOrCreate()
        found.range(1).count()  # The first request to the server: an error shows up here.
    return found


def _started(app: str, master: str | None, settings: dict[str, str]) -> "SparkSession":
    from pyspark.sql import SparkSession  # noqa: PLC0415  An extra, and slow to load.

    master = master or os.environ.get("SPARK_MASTER")
    check_master(master)
    ensure_java()
    local = master is None or master.startswith("local")
    builder = SparkSession.builder.appName(app)
    if master is not None or not _configured_elsewhere():
        builder = builder.master(master or f"local[{os.cpu_count() or 1}]")
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    builder = builder.config(map=EVERYWHERE | _quiet() | (_at_home() if local else {}) | settings)
    try:
        with readable(f"Spark at {master or 'this machine'}"), _stderr_in_log():
            return builder.getOrCreate()
    except SparkError as error:
        if local:
            raise
        # Spark's own message does not name the cluster.
        raise no_cluster(str(master), error.detail) from None


def no_cluster(master: str, detail: Path | None) -> SparkError:
    """The error if no session can be made on a cluster."""
    remedy = "check its address, that it runs, and that it reaches this host; the log has Spark's messages"
    return SparkError(f"no session at {master}", remedy, detail)


def check_master(master: str | None) -> None:
    """Checks the syntax of a master; for a wrong one Spark would only report that Java did not start."""
    if master is not None and not re.match(r"(local(\[.+\])?|yarn)$|(spark|k8s)://.", master):
        raise SparkError(
            f"{master!r} is not the address of a cluster",
            "write it as local[2], spark://HOST:7077, k8s://.. or yarn",
        )


def _configured_elsewhere() -> bool:
    """Whether the environment decides where Spark runs, as spark-submit does."""
    return "PYSPARK_GATEWAY_PORT" in os.environ or "SPARK_CONF_DIR" in os.environ


def _quiet() -> dict[str, str]:
    return {
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{_LOG_SETTINGS} {_RELUCTANT}",
    }


def _at_home() -> dict[str, str]:
    """Settings for one machine: no web page, loopback only, and memory for a single process."""
    return {
        "spark.ui.enabled": "false",
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.memory": os.environ.get(MEMORY_VARIABLE) or f"{memory_mbytes(_machine_mbytes())}m",
    }


def memory_mbytes(machine_mbytes: int) -> int:
    """Java's memory: half of the machine's, within limits."""
    return max(MEMORY_MBYTES_MIN, min(MEMORY_MBYTES_MAX, machine_mbytes // 2))


def _machine_mbytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20


def _silence_python() -> None:
    # It writes a line of several kilobytes for every failed query.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)


@contextmanager
def _stderr_in_log() -> Iterator[None]:
    sys.stderr.flush()
    kept = os.dup(2)
    with log_file().open("ab") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
