"""Names of files that come from clients and from other clusters: none leaves the directory of its set.

Implements  Makpangou and Birman, 5.3: a file goes to a fixed place, or to one that the service chooses.
Invariants  a place is relative, without `..` and without anything that a file system reads in its own way; the
            driver opens no link on the way there. Two sets have different directories.
"""

from typing import Final

from hopring.errors import Drop, PeerError
from hopring.haul.ids import ParcelId
from hopring.haul.link.frames import FILE_BYTES_MAX, FILE_NAME_BYTES_MAX, WideFile

CHOSEN_DIRECTORY: Final = "incoming"
"""Files without a name of their own go here, by the id of their parcel."""

PART_SUFFIX: Final = ".part"
"""Of a file that is not whole yet; no file is named so by a sender."""

_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


def name_problem(name: str) -> str | None:
    """What is wrong with the name of a file; None if it is one. No name at all is right, too."""
    if not name:
        return None
    if len(name.encode(errors="replace")) > FILE_NAME_BYTES_MAX:
        return f"it is longer than {FILE_NAME_BYTES_MAX} bytes"
    parts = name.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "it leaves the directory of its set, or has an empty part"
    if "\\" in name or not name.isprintable():
        return "it has a character that file systems read in their own way"
    if parts[0] == CHOSEN_DIRECTORY or any(part.endswith(PART_SUFFIX) for part in parts):
        return f"{CHOSEN_DIRECTORY}/ and names that end in {PART_SUFFIX} belong to the service"
    return None


def check_file(file: WideFile) -> None:
    """Raises PeerError for a file that no correct cluster sends."""
    problem = name_problem(file.name)
    if problem is not None or file.size_bytes > FILE_BYTES_MAX:
        raise PeerError(Drop.INCONSISTENT, f"a file of the name {file.name!r}: {problem or 'it is too long'}")


def place_of(file: WideFile, parcel: ParcelId) -> str:
    """Where a file goes, within the directory of its set."""
    return file.name or f"{CHOSEN_DIRECTORY}/{parcel.sender}.{parcel.number}"


def directory_of(name: str) -> str:
    """The directory of a set: its name; all but letters, digits, `_` and `-` as `%` and two digits."""
    return "".join([chr(one) if chr(one) in _PLAIN else f"%{one:02x}" for one in name.encode()])
