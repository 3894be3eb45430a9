"""Errors of Spark jobs in one line with a remedy; Spark's own messages go to a log file.

Spark reports a mistake in hundreds of lines of Java. `one_line` extracts the sentence that matters, and
`keep_detail` writes the rest to the log file.
"""

import os
import re
import tempfile
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISDIR
from typing import Final

from hopring.errors import HopError

LOG_BYTES_MAX: Final = 1 << 20
"""A larger log is emptied before it is written again."""

LINE_CHARS_MAX: Final = 300
_OURS: Final = re.compile(r"^hopring\.[\w.]+: (.+; .+)$", re.MULTILINE)


class SparkError(HopError, RuntimeError):
    """Base class of the errors of Spark jobs: a problem and a remedy."""

    def __init__(self, problem: str, remedy: str, detail: Path | None = None) -> None:
        super().__init__(problem, remedy, detail)
        self.problem = problem
        self.remedy = remedy
        self.detail = detail  # The file with Spark's full message.

    def __str__(self) -> str:
        more = "" if self.detail is None else f" (details: {self.detail})"
        return f"{self.problem}; {self.remedy}{more}"


class NoJava(SparkError):
    """No Java is installed that Spark can use."""


class NoSpark(SparkError):
    """PySpark, or a package that it needs, is not installed."""


class DataLost(SparkError):
    """Records that a query has to read or write are lost, or would be."""


class ForeignInput(SparkError, ValueError):
    """A file or table that the job cannot read."""


@contextmanager
def readable(doing: str) -> Iterator[None]:
    """Turns errors that Spark raises inside the block into one line; our own pass unchanged."""
    try:
        yield
    except (HopError, KeyboardInterrupt):
        raise
    except Exception as error:
        if not of_spark(error):
            raise
        raise explained(error, doing) from None


def of_spark(error: BaseException) -> bool:
    """Whether Spark or its bridge to Java raised the error."""
    return type(error).__module__.partition(".")[0] in ("pyspark", "py4j", "grpc")


def explained(error: BaseException, doing: str) -> SparkError:
    """The error as one line; the log file keeps the full message."""
    detail = keep_detail(error)
    text = str(error)
    ours = _OURS.findall(text)
    if ours:
        # One of our own errors, raised in a Python worker: the last line of its traceback.
        problem, _, remedy = ours[-1].rpartition("; ")
        return SparkError(f"{doing}: {problem}", remedy, detail)
    for sign, problem, remedy in _KNOWN:
        if sign in text or sign in type(error).__name__:
            return SparkError(f"{doing}: {problem}", remedy, detail)
    return SparkError(f"{doing}: {one_line(text)}", "see the log for Spark's messages", detail)


def one_line(text: str) -> str:
    """The first informative line, without the name of Java's error class."""
    lines = [line.strip() for line in text.splitlines()]
    informative = [
        line for line in lines if line and not line.startswith(("at ", "Traceback", "File ", "py4j."))
    ]
    first = informative[0] if informative else "no reason given"
    first = first.removeprefix("An error occurred while calling ").strip(": ")
    if first.endswith(".") and first.startswith("o") and len(informative) > 1:
        first = informative[1]  # `o42.collect.` names a Java object, and the next line the error.
    return first if len(first) <= LINE_CHARS_MAX else first[: LINE_CHARS_MAX - 3] + "..."


def keep_detail(error: BaseException) -> Path:
    """Appends the full error to the log file."""
    file = log_file()
    with file.open("a", encoding="utf-8") as log:
        log.writelines(traceback.format_exception(error))
    return file


# A part of Spark's message, the problem, and the remedy.
_KNOWN: Final = (
    (
        "Could not parse Master URL",
        "this is not the address of a cluster",
        "write --master as local[2], spark://HOST:7077 or yarn",
    ),
    (
        "All masters are unresponsive",
        "the master of the cluster does not answer",
        "check --master and that the cluster runs, or leave --master out to run on this machine",
    ),
    ("JAVA_GATEWAY_EXITED", "Java did not start", "check JAVA_HOME; java -version has to print 17 or later"),
    (
        "StatusCode.UNAVAILABLE",
        "the Spark Connect server does not answer",
        "check --remote and that the server runs",
    ),
    (
        "StatusCode.UNAUTHENTICATED",
        "the Spark Connect server asks for a token",
        "set SPARK_CONNECT_AUTHENTICATE_TOKEN to that of the server",
    ),
    (
        "No FileSystem for scheme",
        "Spark has no file system for it here",
        "start Spark with its jars (spark.jars.packages), or give a local directory",
    ),
    (
        "OutOfMemoryError",
        "Java ran out of memory",
        "give Java more memory, such as HOPRING_SPARK_MEMORY=8g, or use a cluster",
    ),
    ("No space left on device", "the disk is full", "free some space, or set SPARK_LOCAL_DIRS to another disk"),
    (
        "is not a Parquet file",
        "a file in it is not a Parquet file",
        "give a directory that holds only traces, as hop sim --trace or hopd --trace writes them",
    ),
    (
        "CANNOT_READ_FILE_FOOTER",
        "a file in it is not a Parquet file, or is incomplete",
        "give a directory that holds only traces, as hop sim --trace or hopd --trace writes them",
    ),
)


def cache_directory(environment: Mapping[str, str]) -> Path:
    """The user's cache directory for hopring, by the XDG specification."""
    base = environment.get("XDG_CACHE_HOME") or str(Path(environment.get("HOME", "/tmp")) / ".cache")
    return Path(base) / "hopring"


def is_private(directory: Path) -> bool:
    """Makes a directory if it is missing; whether it is one of this user that nobody else can write to.

    A new one has mode 0700. The name itself is looked at, and not what a link names.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        directory.mkdir(mode=0o700)
    found = directory.lstat()
    return S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def log_file() -> Path:
    """The log file for Spark's messages: in the cache, or in the temporary directory."""
    cache, shared = cache_directory(os.environ), Path(tempfile.gettempdir()) / f"hopring-{os.getuid()}"
    for directory in (cache, shared):
        try:
            if directory is shared and not is_private(shared):
                continue  # Another user made it, and may have put a link there.
            directory.mkdir(parents=True, exist_ok=True)
            file = directory / "spark.log"
            with file.open("ab") as log:
                if log.tell() > LOG_BYTES_MAX:
                    log.truncate(0)
        except OSError:
            continue
        return file
    return Path(os.devnull)
