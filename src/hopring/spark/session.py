"""Makes Spark sessions that are quiet, find their Python and Java, and use UTC.

A session runs on this machine, on a cluster (`master`) or behind Spark Connect (`remote`); jobs are the same
for all. Without an argument, Spark's own configuration decides, and without one it runs on this machine.

The Java process prints to its stderr before any setting takes effect, so its stderr is the log file. A session
that exists already gets only the settings that our jobs rely on: the others belong to the program that made it.
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

OURS: Final = "spark.hopring.session"
"""Set in sessions that were made here."""

SMALL_ROWS_MAX: Final = 1_000_000

SMALL: Final = {
    "spark.sql.adaptive.enabled": "false",  # It makes a job of every stage.
    "spark.sql.codegen.wholeStage": "false",  # Compiling takes longer than it saves.
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.autoBroadcastJoinThreshold": "-1",  # Each broadcast is a job.
}


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
        ours = {} if SparkSession.getActiveSession() else {OURS: "true"}
        found = builder.config(map=EVERYWHERE | ours | settings).getOrCreate()
        found.range(1).count()  # The first request to the server: an error shows up here.
    return found


def _started(app: str, master: str | None, settings: dict[str, str]) -> "SparkSession":
    from pyspark import SparkContext  # noqa: PLC0415  An extra, and slow to load.
    from pyspark.sql import SparkSession  # noqa: PLC0415

    if SparkContext._active_spark_context is not None:
        # Of another program, or of an earlier call: `getOrCreate` would change its settings.
        return SparkSession.builder.config(map=EVERYWHERE | settings).getOrCreate()
    master = master or os.environ.get("SPARK_MASTER")
    check_master(master)
    ensure_java()
    local = master is None or master.startswith("local")
    builder = SparkSession.builder.appName(app)
    if master is not None or not _configured_elsewhere():
        builder = builder.master(master or f"local[{os.cpu_count() or 1}]")
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    ours = EVERYWHERE | {OURS: "true"} | _quiet() | (_at_home(master) if local else {}) | settings
    builder = builder.config(map=ours)
    try:
        with readable(f"Spark at {master or 'this machine'}"):
            _start_java(ours)
            return builder.getOrCreate()
    except SparkError as error:
        if local:
            raise
        # Spark's own message does not name the cluster.
        raise no_cluster(str(master), error.detail) from None


def _start_java(settings: Mapping[str, str]) -> None:
    """Starts Java with its stderr in the log file; no other thread of this process is affected."""
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415  An extra.
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415

    if SparkContext._gateway is None:
        with log_file().open("ab") as log:
            gateway = launch_gateway(SparkConf().setAll(list(settings.items())), {"stderr": log})
        SparkContext._ensure_initialized(gateway=gateway)


def is_ours(spark: "SparkSession") -> bool:
    """Whether the session was made here, so that its settings may be changed for a while."""
    mark: str | None = spark.conf.get(OURS, "false")
    return mark == "true"


def is_served(spark: "SparkSession") -> bool:
    """Whether the session is behind Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


@contextmanager
def suited_to(spark: "SparkSession", rows: int, shuffle_partitions: int) -> Iterator[None]:
    """Settings for queries over so many rows; set back at the end. A session that is not ours stays as it is.

    Few rows take longer to plan and to compile for than to process. A stateful query keeps the partitions of
    its checkpoint, whatever is set here.
    """
    if not is_ours(spark):
        yield
        return
    wanted = {"spark.sql.shuffle.partitions": str(shuffle_partitions)}
    wanted |= SMALL if rows <= SMALL_ROWS_MAX else {}
    before = {name: spark.conf.get(name) for name in wanted}
    try:
        for name, value in wanted.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            spark.conf.set(name, str(old))


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


def _at_home(master: str | None) -> dict[str, str]:
    """Settings for one machine: no web page, loopback only, memory for one process, a partition per core."""
    return {
        "spark.sql.shuffle.partitions": str(cores_of(master)),
        "spark.ui.enabled": "false",
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.memory": os.environ.get(MEMORY_VARIABLE) or f"{memory_mbytes(_machine_mbytes())}m",
    }


def cores_of(master: str | None) -> int:
    """The cores that a local master uses: those that it names, or all of this machine."""
    if master == "local":
        return 1
    named = re.match(r"local\[(\d+)", master or "")
    return int(named[1]) if named else os.cpu_count() or 1


def memory_mbytes(machine_mbytes: int) -> int:
    """Java's memory: half of the machine's, within limits."""
    return max(MEMORY_MBYTES_MIN, min(MEMORY_MBYTES_MAX, machine_mbytes // 2))


def _machine_mbytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20


def _silence_python() -> None:
    # It writes a line of several kilobytes for every failed query.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
