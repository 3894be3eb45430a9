"""The files of a run's directory in a file system of Hadoop, through the JVM of the session.

Below       `org.apache.hadoop.fs.FileSystem`, for whatever scheme the session is configured.
Invariant   a file is replaced by one rename where the file system has that (`FileContext`, as of HDFS).
Errors      are those of py4j, which `errors.readable` turns into one line.
"""

from typing import TYPE_CHECKING, Any

from hopring.spark.pipeline.files import OutputFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class HadoopFiles(OutputFiles):
    """The files of a directory in a file system that the session's Java knows."""

    def __init__(self, out: str, spark: "SparkSession") -> None:
        super().__init__(out)
        self._root = out.rstrip("/")
        context: Any = spark.sparkContext
        self._gateway = context._gateway
        self._jvm = context._jvm
        java_session: Any = spark._jsparkSession
        # With the session's own settings, as its readers and writers have them.
        self._settings = java_session.sessionState().newHadoopConf()
        self._files = self._path("").getFileSystem(self._settings)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.uri(name))

    def uri(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def is_there(self, name: str) -> bool:
        return bool(self._files.exists(self._path(name)))

    def is_directory(self, name: str) -> bool:
        return self.is_there(name) and bool(self._files.getFileStatus(self._path(name)).isDirectory())

    def names_in(self, name: str) -> list[str]:
        if not self.is_directory(name):
            return []
        return sorted([status.getPath().getName() for status in self._files.listStatus(self._path(name))])

    def make_directory(self, name: str) -> None:
        self._files.mkdirs(self._path(name))

    def read(self, name: str) -> bytes:
        if not self.is_there(name):
            raise FileNotFoundError(self.uri(name))
        stream = self._files.open(self._path(name))
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def write(self, name: str, data: bytes) -> None:
        stream = self._files.create(self._path(name), True)
        try:
            stream.write(bytearray(data))
        finally:
            stream.close()

    def rename(self, name: str, to: str) -> None:
        """By FileContext: it can replace a file at once, and says why something fails."""
        context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(
            self._path("").toUri(), self._settings
        )
        rename = getattr(self._jvm.org.apache.hadoop.fs, "Options$Rename")
        over = [] if self.is_directory(name) else [rename.OVERWRITE]
        options = self._gateway.new_array(rename, len(over))
        for at, option in enumerate(over):
            options[at] = option
        context.rename(self._path(name), self._path(to), options)

    def remove(self, name: str) -> None:
        self._files.delete(self._path(name), True)
