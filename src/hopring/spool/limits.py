"""How large an append may be, and how many applications a spool knows."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from hopring.spool.encode import Encoded, Mark
from hopring.spool.errors import AppendTooLarge
from hopring.spool.heads import APP_BYTES_MAX, APPS_MAX

APPEND_BYTES_MAX: Final = 1024 * 1024 * 1024


def check_limits(
    directory: Path, blocks: Sequence[Encoded], mark: Mark | None, apps: Mapping[str, int]
) -> None:
    """AppendTooLarge or ValueError if this cannot be appended."""
    if sum([block.head.size_bytes for block in blocks]) > APPEND_BYTES_MAX:
        raise AppendTooLarge(directory, f"an append of more than {APPEND_BYTES_MAX} bytes")
    if mark is None:
        return
    if not 0 < len(mark.app.encode()) <= APP_BYTES_MAX or mark.batch < 0:
        raise ValueError(f"{mark}: a name of 1 to {APP_BYTES_MAX} bytes, a number that is not negative")
    if mark.app not in apps and len(apps) >= APPS_MAX:
        raise AppendTooLarge(directory, f"more than {APPS_MAX} applications")
