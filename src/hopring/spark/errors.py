"""What can go wrong with Spark, each in one line with its remedy; what Spark itself says goes to a log file.

Spark tells of a mistake in hundreds of lines of Java. Whoever calls a job wants to know what to do, so
`one_line` finds the sentence, and `keep_detail` keeps the rest where it can be read.
"""

import os
import re
import tempfile
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hopring.errors import HopError

LINE_CHARS_MAX: Final = 300
_OURS: Final = re.compile(r"^hopring\.[\w.]+: (.+; .+)$", re.MULTILINE)


class SparkError(HopError, RuntimeError):
    """Spark cannot do what it was asked for."""

    def __init__(self, problem: str, remedy: str, detail: Path | None = None) -> None:
        super().__init__(problem, remedy, detail)
        self.problem = problem
        self.remedy = remedy
        self.detail = detail  # Where all that Spark said is kept.

    def __str__(self) -> str:
        more = "" if self.detail is None else f" (all of it: {self.detail})"
        return f"{self.problem}; {self.remedy}{more}"


class NoJava(SparkError):
    """There is no Java that Spark runs on."""


class NoSpark(SparkError):
    """PySpark is not installed."""


class DataLost(SparkError):
    """What a stream was to read is not there any more."""


class ForeignInput(SparkError, ValueError):
    """A file that is not what the job reads."""


@contextmanager
def readable(doing: str) -> Iterator[None]:
    """Turns what Spark raises inside the block into one line; errors of ours pass as they are."""
    try:
        yield
    except (HopError, KeyboardInterrupt):
        raise
    except Exception as error:
        if not of_spark(error):
            raise
        raise explained(error, doing) from None


def of_spark(error: BaseException) -> bool:
    """Whether Spark, or the bridge to Java, raised this."""
    return type(error).__module__.partition(".")[0] in ("pyspark", "py4j", "grpc")


def explained(error: BaseException, doing: str) -> SparkError:
    """One line of a long story, which is kept in a file."""
    detail = keep_detail(error)
    text = str(error)
    ours = _OURS.findall(text)
    if ours:
        # Raised in a Python process of Spark's: what its traceback ends with.
        problem, _, remedy = ours[-1].rpartition("; ")
        return SparkError(f"{doing}: {problem}", remedy, detail)
    for sign, problem, remedy in _KNOWN:
        if sign in text or sign in type(error).__name__:
            return SparkError(f"{doing}: {problem}", remedy, detail)
    return SparkError(f"{doing}: {one_line(text)}", "see the log for what Spark says", detail)


def one_line(text: str) -> str:
    """The first line that says something, without Java's name for the error."""
    lines = [line.strip() for line in text.splitlines()]
    said = [line for line in lines if line and not line.startswith(("at ", "Traceback", "File ", "py4j."))]
    first = said[0] if said else "no reason given"
    first = first.removeprefix("An error occurred while calling ").strip(": ")
    if first.endswith(".") and first.startswith("o") and len(said) > 1:
        first = said[1]  # `o42.collect.` names a Java object, and the line behind it the error.
    return first if len(first) <= LINE_CHARS_MAX else first[: LINE_CHARS_MAX - 3] + "..."


def keep_detail(error: BaseException) -> Path:
    """Writes the whole error behind what else Spark said."""
    file = log_file()
    with file.open("a", encoding="utf-8") as log:
        log.writelines(traceback.format_exception(error))
    return file


# A part of what Spark says, what that means, and what to do.
_KNOWN: Final = (
    (
        "Could not parse Master URL",
        "this is no address of a cluster",
        "write --master as local[2], spark://HOST:7077 or yarn",
    ),
    (
        "All masters are unresponsive",
        "the master of the cluster does not answer",
        "check --master and that the cluster runs, or leave it out to run here",
    ),
    ("JAVA_GATEWAY_EXITED", "Java did not start", "check JAVA_HOME; java -version has to say 17 or later"),
    (
        "StatusCode.UNAVAILABLE",
        "the Spark Connect server does not answer",
        "check --remote and that the server runs",
    ),
    (
        "OutOfMemoryError",
        "Java ran out of memory",
        "give it more: HOPRING_SPARK_MEMORY=8g, or use a cluster",
    ),
    ("No space left on device", "the disk is full", "free some space, or set SPARK_LOCAL_DIRS to another disk"),
    (
        "is not a Parquet file",
        "a file there is no Parquet file",
        "give a directory that holds only traces, as hop sim --trace or hopd --trace writes them",
    ),
    (
        "CANNOT_READ_FILE_FOOTER",
        "a file there is no Parquet file, or not a whole one",
        "give a directory that holds only traces, as hop sim --trace or hopd --trace writes them",
    ),
)


LOG_BYTES_MAX: Final = 1 << 20
"""A log that has grown beyond this begins anew."""


def cache_directory(environment: Mapping[str, str]) -> Path:
    """The user's cache, as desktops agreed on it."""
    base = environment.get("XDG_CACHE_HOME") or str(Path(environment.get("HOME", "/tmp")) / ".cache")
    return Path(base) / "hopring"


def log_file() -> Path:
    """The file for what Spark says: in the cache, or with the temporary files if that cannot be written."""
    for directory in (cache_directory(os.environ), Path(tempfile.gettempdir()) / f"hopring-{os.getuid()}"):
        try:
            directory.mkdir(parents=True, exist_ok=True)
            file = directory / "spark.log"
            with file.open("ab") as log:
                if log.tell() > LOG_BYTES_MAX:
                    log.truncate(0)
        except OSError:
            continue
        return file
    return Path(os.devnull)
