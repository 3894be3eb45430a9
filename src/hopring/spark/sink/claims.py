"""Claims: the query that a `txnAppId` belongs to, so that two checkpoints never share one.

Batches are recognized by `txnAppId` and number. A query with a new checkpoint counts from 0 again; under the
`txnAppId` of another query its batches would be taken for repeated ones and dropped. Spark gives each
checkpoint a random id, the query's id. The first batch of a query stores it, and a batch of another query is
refused.

A claim of a spool is a file in its directory, and is worth as much as the spool's marks. Receivers of a live
group cannot be asked, so its claim is a file of the driver: in the directory `staging` if that is given, else
below the user's state directory, by cluster. A driver on another machine does not see the latter.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from hopring.spark.errors import DataLost
from hopring.spool.files import NEW, safe_name

CLAIMS: Final = "sinks"
ID_BYTES_MAX: Final = 64
"""Limit for the id in a claim; Spark's are 36 characters long."""


def claim_of_spool(directory: Path, app: str) -> Path:
    """The file that says which query an application of this spool is."""
    return directory / CLAIMS / safe_name(app)


def claim_of_live(environment: Mapping[str, str], cluster: str, app: str) -> Path:
    """The file that says which query an application that sends to this cluster is."""
    base = environment.get("XDG_STATE_HOME") or str(Path(environment.get("HOME", "/tmp")) / ".local" / "state")
    name = sha256(f"{cluster}\0{app}".encode()).hexdigest()[:32]
    return Path(base) / "hopring" / CLAIMS / name


def claim(file: Path, app: str, query: str, *, anew: bool = False) -> None:
    """Stores the query's id, or compares it with the stored one; DataLost if it is another one.

    `anew` replaces a stored id: nothing was published under it. OSError if the disk fails.
    """
    known = "" if anew else _stored(file)
    if known == query:
        return
    if known:
        raise DataLost(
            f"txnAppId {app!r} belongs to a query with another checkpoint ({file})",
            "give this query a txnAppId of its own: under this one its batches would count as repeated",
        )
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_name(f"{file.name}.{os.getpid()}{NEW}")
    with fresh.open("w") as out:
        out.write(query)
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(file)


def _stored(file: Path) -> str:
    with suppress(FileNotFoundError):
        return file.read_bytes()[:ID_BYTES_MAX].decode(errors="replace").strip()
    return ""
