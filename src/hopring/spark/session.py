"""A Spark session that is quiet, knows its Python and its Java, and counts time in UTC.

Locally it is made here; on a cluster (`master`) or behind Spark Connect (`remote`) the same jobs run unchanged.
What is said nowhere is what Spark finds in its own configuration, and here if it finds nothing.

The Java process inherits stderr from the moment it is started, and prints to it before any setting can act. So
stderr is the log file while the session starts, and Java's stays that.
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
"""Java's best compiler begins ten times as late as it would.

A job of minutes plans a hundred queries, each a little other code: optimizing that takes longer than it saves.
The loops over rows are hot enough all the same.
"""

EVERYWHERE: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
"""What our jobs rely on, wherever they run."""


def session(
    app: str, master: str | None = None, remote: str | None = None, settings: Mapping[str, str] | None = None
) -> "SparkSession":
    """A session for a job of this name; the one that there is already, if there is one."""
    if master is not None and remote is not None:
        raise SparkError("a master and a remote were given", "give one of them")
    must_be_installed()
    remote = remote or (None if master else os.environ.get("SPARK_REMOTE"))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # Workers would take the python3 of the PATH.
    _silence_python()
    if remote is not None:
        return _connected(app, remote, dict(settings or {}))
    return _started(app, master, dict(settings or {}))


def must_be_installed() -> None:
    """NoSpark if PySpark is not."""
    if find_spec("pyspark") is None:
        raise NoSpark("PySpark is not installed", "pip install 'hopring[spark,jdk]'")


def _connected(app: str, remote: str, settings: dict[str, str]) -> "SparkSession":
    if find_spec("grpc") is None:
        raise NoSpark(f"Spark Connect at {remote} needs grpcio", "pip install 'hopring[connect]'")
    from pyspark.sql import SparkSession  # noqa: PLC0415  An extra, and slow to load.

    with readable(f"Spark Connect at {remote}"):
        builder = SparkSession.builder.appName(app).remote(remote)
        found = builder.config(map=EVERYWHERE | settings).getOrCreate()
        found.range(1).count()  # Nothing was asked of the server until now.
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
        # Spark itself says only that it has made no session.
        raise no_cluster(str(master), error.detail) from None


def no_cluster(master: str, detail: Path | None) -> SparkError:
    """The error if a cluster gives no session."""
    remedy = "is it up, is that its address, and does it see this host? The log has what Spark says"
    return SparkError(f"no session at {master}", remedy, detail)


def check_master(master: str | None) -> None:
    """Whether this can be a master: of one that cannot be, Spark says only that Java did not start."""
    if master is not None and not re.match(r"(local(\[.+\])?|yarn)$|(spark|k8s)://.", master):
        raise SparkError(
            f"{master!r} is no address of a cluster",
            "write it as local[2], spark://HOST:7077, k8s://.. or yarn",
        )


def _configured_elsewhere() -> bool:
    """Whether somebody who runs us, such as spark-submit, has said where."""
    return "PYSPARK_GATEWAY_PORT" in os.environ or "SPARK_CONF_DIR" in os.environ


def _quiet() -> dict[str, str]:
    return {
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{_LOG_SETTINGS} {_RELUCTANT}",
    }


def _at_home() -> dict[str, str]:
    """On one machine: no page in a browser, nothing on the network, and memory for all in one process."""
    return {
        "spark.ui.enabled": "false",
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.memory": os.environ.get(MEMORY_VARIABLE) or f"{memory_mbytes(_machine_mbytes())}m",
    }


def memory_mbytes(machine_mbytes: int) -> int:
    """What Java may have: half of the machine, within limits."""
    return max(MEMORY_MBYTES_MIN, min(MEMORY_MBYTES_MAX, machine_mbytes // 2))


def _machine_mbytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20


def _silence_python() -> None:
    # One line of several kilobytes for every query that fails.
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
