"""What a sink to a spool or a live group is told, parsed once and refused in one line if it is wrong."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

import msgspec

from hopring.client.url import parse_url
from hopring.groups.names import is_legal_group
from hopring.ids import GroupName
from hopring.services import Service
from hopring.spark.errors import ForeignInput
from hopring.spark.source.options import Parsers, WrongOption, parsed, text
from hopring.spool.encode import AppendMark
from hopring.wire.batch_mark import APP_BYTES_MAX, BATCH_MAX, is_legal_app

PAYLOADS: Final = ("binary", "string")
TYPES: Final = ("tinyint", "smallint", "int", "bigint")
SERVICES: Final = {one.name.lower(): one for one in Service if one.reliable}
OUTBOX: Final = "hopring"
"""Below the checkpoint of a query: where its last batch is kept."""


class WriteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where it is written to, and by whom."""

    path: str = ""  # Of spools.
    daemons: tuple[str, ...] = ()  # Or URLs of daemons, of a live group.
    group: str
    service: Service = Service.SAFE
    app: str = ""  # By which batches are known again.
    version: int | None = None  # Of a write that is no stream: its number.
    sender: str = ""
    staging: str = ""
    checkpoint: str = ""  # Spark's own; it hands over all options.

    @property
    def mark(self) -> AppendMark | None:
        """By which a write that is no stream is known again, if it is."""
        return None if self.version is None else AppendMark(self.app, self.version)

    @property
    def kept(self) -> str:
        """Where a sink to a live group keeps its last batch; empty if there is no place for it."""
        if self.staging:
            return self.staging
        near = _local(self.checkpoint)
        return near and str(Path(near) / OUTBOX)


def _local(place: str) -> str:
    """A path of this machine, or of storage that is mounted; empty if it is elsewhere."""
    parts = urlsplit(place)
    if not parts.scheme:
        return place and str(Path(place).absolute())
    return unquote(parts.path) if parts.scheme == "file" and parts.netloc in ("", "localhost") else ""


def _group(option: str, said: str) -> str:
    if not is_legal_group(GroupName(said)):
        raise WrongOption(option, f"{said!r} is no name of a group", "name one that a session may join")
    return said


def _version(option: str, said: str) -> int:
    if not said.strip().isdecimal():
        raise WrongOption(option, f"{said!r} is no number", "write one that rises with each write, from 0 on")
    return int(said)


def _daemons(option: str, said: str) -> tuple[str, ...]:
    return tuple([_url(option, one) for one in text(option, said).split(",")])


def _url(option: str, said: str) -> str:
    place = text(option, said)
    url = place if "://" in place else f"hop+unix://{quote(place)}" if place[0] == "/" else f"hop://{place}"
    try:
        parse_url(url)
    except ValueError:
        remedy = "write host:port, or the path of its socket: localhost:4893, /run/hopd.sock"
        raise WrongOption(option, f"{place!r} is no address of a daemon", remedy) from None
    return url


def _service(option: str, said: str) -> Service:
    if said.strip().lower() not in SERVICES:
        raise WrongOption(option, f"there is no service {said!r} for it", f"write {', '.join(SERVICES)}")
    return SERVICES[said.strip().lower()]


WRITING: Final[Parsers] = {
    "path": ("path", text),
    "daemon": ("daemons", _daemons),
    "group": ("group", _group),
    "service": ("service", _service),
    "txnAppId": ("app", text),
    "txnVersion": ("version", _version),
    "sender": ("sender", text),
    "staging": ("staging", text),
    "checkpointLocation": ("checkpoint", text),
}
LIVE_ONLY: Final = ("service", "staging")


def write_options(options: Mapping[str, str], *, stream: bool) -> WriteOptions:
    """All that a sink is told; WrongOption says what is wrong with it."""
    found = parsed(options, WRITING, "a sink")
    if "path" in found and "daemons" in found:
        raise WrongOption("daemon", "path is given, too", "give path for a spool or daemon for a live group")
    if "path" not in found and "daemons" not in found:
        remedy = "give the directory of the spools, or for a live group the option daemon, as host:port"
        raise WrongOption("path", "it is missing", remedy)
    if "group" not in found:
        raise WrongOption("group", "it is missing", "name the group that is written to")
    if stream and "app" not in found:
        raise WrongOption("txnAppId", "it is missing", "give the query a name that it has for good")
    if stream and "version" in found:
        raise WrongOption("txnVersion", "it means nothing in a stream", "leave it out: batches are numbered")
    if not stream and ("app" in found) != ("version" in found):
        raise WrongOption("txnAppId", "txnAppId and txnVersion belong together", "give both or none")
    return _live(found, stream=stream) if "daemons" in found else _spool(found)


def _spool(found: dict[str, Any]) -> WriteOptions:
    for name in LIVE_ONLY:
        if name in found:
            raise WrongOption(name, "it means nothing in a sink to a spool", "leave it out, or give daemon")
    return WriteOptions(**found)


def _live(found: dict[str, Any], *, stream: bool) -> WriteOptions:
    if "sender" in found:
        raise WrongOption(
            "sender", "it means nothing in a live group", "leave it out: it is the sink's session"
        )
    if "app" not in found:
        remedy = "give both, so that a write that is made again is delivered once"
        raise WrongOption("txnAppId", "txnAppId and txnVersion are missing", remedy)
    if not is_legal_app(found["app"]):
        raise WrongOption("txnAppId", "it is too long", f"take a name of 1 to {APP_BYTES_MAX} bytes")
    if found.get("version", 0) > BATCH_MAX:
        raise WrongOption("txnVersion", f"it is above {BATCH_MAX}", "count the writes: 0, 1, 2")
    options = WriteOptions(**found)
    if stream and not options.kept:
        remedy = "give a directory that the driver has after a restart, too, and executors see"
        raise WrongOption("staging", "it is missing, and checkpointLocation is no directory", remedy)
    return options


def check_written(columns: Iterable[tuple[str, str]]) -> None:
    """Whether these columns can be written; raises ForeignInput with what to select if not."""
    found = dict(columns)
    remedy = "select payload (binary or string) and, if you like, type (a whole number)"
    if "payload" not in found:
        raise ForeignInput("there is no column payload to be written", remedy)
    for name, kind in found.items():
        if name not in ("payload", "type"):
            raise ForeignInput(f"a message has no place for the column {name}", remedy)
        if kind not in (PAYLOADS if name == "payload" else TYPES):
            raise ForeignInput(f"the column {name} is {kind}", remedy)
