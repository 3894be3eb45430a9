"""What a sink to spools is told, parsed once and refused in one line if it is wrong."""

from collections.abc import Iterable, Mapping
from typing import Final

from hopring.groups.names import is_legal_group
from hopring.ids import GroupName
from hopring.spark.errors import ForeignInput
from hopring.spark.options import Parsers, WrongOption, parsed, text
from hopring.spool.encode import Mark
from hopring.value import Value

PAYLOADS: Final = ("binary", "string")
TYPES: Final = ("tinyint", "smallint", "int", "bigint")


class WriteOptions(Value, frozen=True, kw_only=True):
    """Where it is written to, and by whom."""

    path: str
    group: str
    app: str = ""  # By which batches are known again.
    version: int | None = None  # Of a write that is no stream: its number.
    sender: str = ""
    checkpoint: str = ""  # Spark's own; it hands over all options.

    @property
    def mark(self) -> Mark | None:
        """By which a write that is no stream is known again, if it is."""
        return None if self.version is None else Mark(self.app, self.version)


def _group(option: str, said: str) -> str:
    if not is_legal_group(GroupName(said)):
        raise WrongOption(option, f"{said!r} is no name of a group", "name one that a session may join")
    return said


def _version(option: str, said: str) -> int:
    if not said.strip().isdecimal():
        raise WrongOption(option, f"{said!r} is no number", "write one that rises with each write, from 0 on")
    return int(said)


WRITING: Final[Parsers] = {
    "path": ("path", text),
    "group": ("group", _group),
    "txnAppId": ("app", text),
    "txnVersion": ("version", _version),
    "sender": ("sender", text),
    "checkpointLocation": ("checkpoint", text),
}


def write_options(options: Mapping[str, str], *, stream: bool) -> WriteOptions:
    """All that a sink is told; WrongOption says what is wrong with it."""
    found = parsed(options, WRITING, "a sink to spools")
    if "group" not in found:
        raise WrongOption("group", "it is missing", "name the group whose spool is written")
    if stream and "app" not in found:
        raise WrongOption("txnAppId", "it is missing", "give the query a name that it has for good")
    if stream and "version" in found:
        raise WrongOption("txnVersion", "it means nothing in a stream", "leave it out: batches are numbered")
    if not stream and ("app" in found) != ("version" in found):
        raise WrongOption("txnAppId", "txnAppId and txnVersion belong together", "give both or none")
    return WriteOptions(**found)


def check_written(columns: Iterable[tuple[str, str]]) -> None:
    """Whether these columns can be written; raises ForeignInput with what to select if not."""
    found = dict(columns)
    remedy = "select payload (binary or string) and, if you like, type (a whole number)"
    if "payload" not in found:
        raise ForeignInput("there is no column payload to be written", remedy)
    for name, kind in found.items():
        if name not in ("payload", "type"):
            raise ForeignInput(f"a spool has no place for the column {name}", remedy)
        if kind not in (PAYLOADS if name == "payload" else TYPES):
            raise ForeignInput(f"the column {name} is {kind}", remedy)
