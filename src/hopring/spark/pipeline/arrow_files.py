"""The files of a run's directory in a file system of pyarrow: behind Spark Connect there is no JVM here.

Below       `pyarrow.fs`: S3, Google's and Azure's stores, HDFS with its own library.
Invariant   the server knows the same directory by the same URI.
Limit       object stores cannot rename a directory: its files are copied then, so that for as long as that
            takes a table may be incomplete.
"""

from typing import Any

import pyarrow as pa
from pyarrow import fs

from hopring.spark.errors import ForeignInput
from hopring.spark.pipeline.files import OutputFiles


class ArrowFiles(OutputFiles):
    """The files of a directory; `system` and `path` say where it is, if pyarrow cannot tell by its URI."""

    def __init__(self, out: str, system: Any = None, path: str = "") -> None:
        super().__init__(out)
        self._uri = out.rstrip("/")
        self._system, self._root = (system, path) if system is not None else _by_uri(out)

    def _path(self, name: str) -> str:
        return "/".join(part for part in (self._root.rstrip("/"), name) if part)

    def _kind(self, name: str) -> Any:
        return self._system.get_file_info(self._path(name)).type

    def uri(self, name: str) -> str:
        return f"{self._uri}/{name}" if name else self._uri

    def is_there(self, name: str) -> bool:
        return bool(self._kind(name) != fs.FileType.NotFound)

    def is_directory(self, name: str) -> bool:
        return bool(self._kind(name) == fs.FileType.Directory)

    def names_in(self, name: str) -> list[str]:
        found = self._system.get_file_info(fs.FileSelector(self._path(name), allow_not_found=True))
        # Sums that Hadoop keeps beside its local files; its own listing leaves them out.
        return sorted([one.base_name for one in found if not _is_sum(one.base_name)])

    def make_directory(self, name: str) -> None:
        self._system.create_dir(self._path(name), recursive=True)

    def read(self, name: str) -> bytes:
        with self._system.open_input_stream(self._path(name)) as stream:
            return bytes(stream.read())

    def write(self, name: str, data: bytes) -> None:
        with self._system.open_output_stream(self._path(name)) as stream:
            stream.write(data)

    def rename(self, name: str, to: str) -> None:
        one, other = self._path(name), self._path(to)
        if not self.is_directory(name):
            self._system.move(one, other)
            return
        try:
            self._system.move(one, other)
        except (NotImplementedError, pa.ArrowException, OSError):
            fs.copy_files(one, other, self._system, self._system)
            self._system.delete_dir(one)

    def remove(self, name: str) -> None:
        kind = self._kind(name)
        if kind == fs.FileType.Directory:
            self._system.delete_dir(self._path(name))
        elif kind != fs.FileType.NotFound:
            self._system.delete_file(self._path(name))


def _is_sum(name: str) -> bool:
    return name.startswith(".") and name.endswith(".crc")


def _by_uri(out: str) -> tuple[Any, str]:
    try:
        found: tuple[Any, str] = fs.FileSystem.from_uri(out)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        remedy = "run it where Spark's Java is, without --remote, or give a directory that pyarrow can reach"
        raise ForeignInput(f"{out}: pyarrow has no access to it ({reason})", remedy) from None
    return found
