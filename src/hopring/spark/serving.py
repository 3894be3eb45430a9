"""A Spark Connect server on this machine, for many small runs: its Java and its compiled code stay.

The server is a plugin of Spark in the Java process of an ordinary session. So it has the settings of our
sessions, and ends with this process, also if that is killed: Java ends when its stdin is closed.

Invariant   it listens on loopback only. A client of Spark Connect can run any code, and neither side of it has
            TLS of its own.
"""

import os
import socket
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self

from hopring.spark.errors import SparkError, log_file
from hopring.spark.session import LOOPBACK, must_be_installed, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PORT_DEFAULT: Final = 15_002
END_SECONDS: Final = 20.0
CATALOG_SECONDS: Final = 5
"""For how long a session may take the files of a catalog's table as known."""

_REMOTE: Final = "SPARK_REMOTE"
_PLUGIN: Final = "org.apache.spark.sql.connect.SparkConnectPlugin"


class ConnectServer:
    """A server that runs inside a `with` block; `url` is its address for `--remote`."""

    def __init__(self, port: int = PORT_DEFAULT, master: str | None = None) -> None:
        """Starts nothing yet; the master is that of `session`."""
        self.port = port
        self.master = master
        # With another name of this machine, clients that have a token would insist on TLS.
        self.url = f"sc://localhost:{port}"
        self._spark: SparkSession | None = None
        self._java: Any = None  # The process.

    def __enter__(self) -> Self:
        must_be_installed()
        check_port(self.port)
        from pyspark import SparkContext  # noqa: PLC0415  An extra.

        if SparkContext._active_spark_context is not None:
            raise SparkError("this process has a Spark session already", "start the server in another process")
        # A server is no client of another one, whatever the shell has for its clients.
        os.environ.pop(_REMOTE, None)
        self._spark = session("hop pipeline serve", self.master, settings=self._settings())
        assert SparkContext._gateway is not None, "the session has started it"
        self._java = getattr(SparkContext._gateway, "proc", None)
        return self

    def _settings(self) -> dict[str, str]:
        return {
            "spark.plugins": _PLUGIN,
            "spark.connect.grpc.binding.address": LOOPBACK,
            "spark.connect.grpc.binding.port": str(self.port),
            # A table of the catalog is read by other sessions than the one that replaces it.
            "spark.sql.metadataCacheTTLSeconds": str(CATALOG_SECONDS),
        }

    @property
    def is_running(self) -> bool:
        """Whether Java has not ended yet."""
        return self._java is None or self._java.poll() is None

    def must_run(self) -> None:
        """Raises SparkError if Java has ended."""
        if not self.is_running:
            raise SparkError("the server's Java has ended", "start the server again", log_file())

    def __exit__(self, *_: object) -> None:
        spark, self._spark = self._spark, None
        if spark is not None and self.is_running:
            spark.stop()
        if self._java is not None:
            self._end_java()

    def _end_java(self) -> None:
        """Closes Java's stdin, upon which it ends; kills it if it does not."""
        if self._java.stdin is not None:
            with suppress(OSError):
                self._java.stdin.close()
        try:
            self._java.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._java.kill()
            self._java.wait()


def check_port(port: int) -> None:
    """Raises SparkError if the server cannot listen there; Spark itself would say so in a page of Java."""
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((LOOPBACK, port))
        except OSError as error:
            problem = f"port {port} of {LOOPBACK}: {error.strerror or error}"
            remedy = "end the other server, or choose another with --port"
            raise SparkError(problem, remedy) from None
