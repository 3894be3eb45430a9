"""Where the Spark room keeps files of its own: what can be made again, and what Spark had to say."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

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
