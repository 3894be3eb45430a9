"""Options of the sinks, and the columns that they accept. A wrong one is refused with a remedy."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec

from hopring.client.arguments import parse_url
from hopring.groups.names import is_legal_group
from hopring.ids import GroupName
from hopring.services import Service
from hopring.spark.errors import ForeignInput
from hopring.spark.source.options import Parsers, WrongOption, local_path, parsed, place, text
from hopring.spool.encode import AppendMark
from hopring.wire.batch_mark import APP_BYTES_MAX, BATCH_MAX, is_legal_app

COLUMNS: Final = {
    "payload": ("binary", "string"),
    "type": ("tinyint", "smallint", "int", "bigint"),
    "group": ("string",),
}
"""The columns that can be written, with the types that each may have."""

SERVICES: Final = {one.name.lower(): one for one in Service if one.reliable}
OUTBOX: Final = "hopring"
"""The directory below a query's checkpoint that keeps its last batch."""

GROUP_COLUMN: Final = "group"
FILE_CHARS_MAX: Final = 1024
_CONTENT: Final = re.compile(
    r"\n|-----BEGIN|^eyJ[\w-]*\.[\w-]+\.[\w-]*$|^[A-Za-z0-9+_-]{40,}$|^[A-Za-z0-9+/_-]{20,}={1,2}$"
)
"""What keys and tokens look like: lines, PEM, JSON Web Tokens, hexadecimal, base64."""


class WriteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a sink: the root of spools or the daemons of a live group, and the query's identity."""

    path: str = ""  # The root of spools.
    daemons: tuple[str, ...] = ()  # The URLs of daemons, for a live group.
    group: str = ""  # Empty: each row names its group.
    service: Service = Service.SAFE
    app: str = ""  # Identifies the query, so that a repeated batch is recognized.
    version: int | None = None  # The number of a write that is not a stream.
    sender: str = ""
    staging: str = ""
    checkpoint: str = ""  # Spark's own option, which it passes along.
    user: str = ""
    key: str = ""  # Names of files, like the next three. Their contents never travel: Spark shows options.
    token: str = ""
    certificate: str = ""
    ca: str = ""

    @property
    def mark(self) -> AppendMark | None:
        """The identity of a write that is not a stream, if it has one."""
        return None if self.version is None else AppendMark(self.app, self.version)

    @property
    def kept(self) -> str:
        """The directory in which a sink to a live group keeps its last batch; empty if there is none."""
        if self.staging:
            return self.staging
        near = local_path(self.checkpoint)
        return near and str(Path(near) / OUTBOX)


def _group(option: str, value: str) -> str:
    if not is_legal_group(GroupName(value)):
        raise WrongOption(
            option, f"{value!r} is not a legal name of a group", "name one that sessions can join"
        )
    return value


def _version(option: str, value: str) -> int:
    if not value.strip().isdecimal():
        raise WrongOption(option, f"{value!r} is not a number", "number the writes from 0 on")
    return int(value)


def _daemons(option: str, value: str) -> tuple[str, ...]:
    return tuple([_url(option, one) for one in text(option, value).split(",")])


def _url(option: str, value: str) -> str:
    place = text(option, value)
    if "@" in place.partition("://")[2]:
        remedy = "write hops://host:port, and give options user and key: Spark shows this one in plans and logs"
        raise WrongOption(option, "the address of a daemon has no user and no password in it", remedy)
    url = place if "://" in place else f"hop+unix://{quote(place)}" if place[0] == "/" else f"hop://{place}"
    try:
        parse_url(url)
    except ValueError:
        remedy = "write host:port, hops://host:port for TLS, or the path of its socket: /run/hopd.sock"
        raise WrongOption(option, f"{place!r} is not the address of a daemon", remedy) from None
    return url


def _service(option: str, value: str) -> Service:
    if value.strip().lower() not in SERVICES:
        raise WrongOption(option, f"a sink has no service {value!r}", f"write {', '.join(SERVICES)}")
    return SERVICES[value.strip().lower()]


def _file(option: str, value: str) -> str:
    """The name of a file with a credential. The value is not repeated in errors: it may be a secret."""
    name = text(option, value)
    if _CONTENT.search(name) or len(name) > FILE_CHARS_MAX:
        remedy = "give the name of a file: Spark shows options in plans and logs. Replace what was given here"
        raise WrongOption(option, "this is no name of a file but looks like its content", remedy)
    return str(Path(name).absolute())


WRITING: Final[Parsers] = {
    "path": ("path", place),
    "daemon": ("daemons", _daemons),
    "group": ("group", _group),
    "service": ("service", _service),
    "txnAppId": ("app", text),
    "txnVersion": ("version", _version),
    "sender": ("sender", text),
    "staging": ("staging", text),
    "checkpointLocation": ("checkpoint", text),
    "user": ("user", text),
    "key": ("key", _file),
    "token": ("token", _file),
    "certificate": ("certificate", _file),
    "ca": ("ca", _file),
}
CREDENTIALS: Final = ("user", "key", "token", "certificate", "ca")
LIVE_ONLY: Final = ("service", "staging", *CREDENTIALS)


def write_options(options: Mapping[str, str], *, stream: bool, by_row: bool = False) -> WriteOptions:
    """The options of a sink; WrongOption if one is wrong or missing, or two contradict each other.

    `by_row` says that there is a column of groups; the option is then for rows without one.
    """
    found = parsed(options, WRITING, "a sink")
    if "path" in found and "daemons" in found:
        raise WrongOption("daemon", "path is given as well", "give path for a spool or daemon for a live group")
    if "path" not in found and "daemons" not in found:
        remedy = "give the directory of the spools, or for a live group the option daemon, as host:port"
        raise WrongOption("path", "it is missing", remedy)
    if "group" not in found and not by_row:
        raise WrongOption("group", "it is missing", "name the group that is written to, or add a column group")
    if stream and "app" not in found:
        raise WrongOption("txnAppId", "it is missing", "give the query a name that never changes")
    if stream and "version" in found:
        raise WrongOption("txnVersion", "it has no meaning in a stream", "leave it out: batches are numbered")
    if not stream and ("app" in found) != ("version" in found):
        raise WrongOption("txnAppId", "txnAppId and txnVersion belong together", "give both or none")
    return _live(found, stream=stream) if "daemons" in found else _spool(found)


def _spool(found: dict[str, Any]) -> WriteOptions:
    for name in LIVE_ONLY:
        if name in found:
            raise WrongOption(name, "it has no meaning in a sink to a spool", "leave it out, or give daemon")
    return WriteOptions(**found)


def _live(found: dict[str, Any], *, stream: bool) -> WriteOptions:
    if "sender" in found:
        raise WrongOption(
            "sender", "it has no meaning in a live group", "leave it out: the sender is the sink's session"
        )
    if "app" not in found:
        remedy = "give both, so that a repeated write is delivered once"
        raise WrongOption("txnAppId", "txnAppId and txnVersion are missing", remedy)
    if not is_legal_app(found["app"]):
        raise WrongOption("txnAppId", "it is too long", f"take a name of 1 to {APP_BYTES_MAX} bytes")
    if found.get("version", 0) > BATCH_MAX:
        raise WrongOption("txnVersion", f"it is above {BATCH_MAX}", "count the writes: 0, 1, 2")
    _check_credentials(found)
    options = WriteOptions(**found)
    if stream and not options.kept:
        remedy = "give a directory that survives a restart of the driver and that executors can write to"
        raise WrongOption("staging", "it is missing, and checkpointLocation is not a local directory", remedy)
    return options


def _check_credentials(found: dict[str, Any]) -> None:
    """Raises WrongOption if credentials contradict each other, or do not fit the addresses."""
    kinds = [name for name in ("key", "token", "certificate") if name in found]
    if len(kinds) > 1:
        raise WrongOption(kinds[1], f"{kinds[0]} is given as well", "give one kind of credentials")
    if ("user" in found) != ("key" in found):
        missing = "user" if "key" in found else "key"
        raise WrongOption(missing, "it is missing", "give both, a user and the file of its key")
    encrypted = [parse_url(url).tls for url in found["daemons"]]
    if any(encrypted) and "ca" not in found:
        remedy = "give the file with the certificate of the cluster's authority, such as keys/ca.crt"
        raise WrongOption("ca", "it is missing for hops://", remedy)
    if not all(encrypted):
        for name in ("ca", "certificate"):
            if name in found:
                raise WrongOption(name, "an address is not for TLS", "write hops://host:port in daemon")


def check_written(columns: Iterable[tuple[str, str]]) -> bool:
    """Checks the columns to be written, and says whether rows name their groups.

    ForeignInput with a remedy if the columns are not those of messages.
    """
    found = dict(columns)
    remedy = "select payload (binary or string) and optionally type (a whole number) and group (string)"
    if "payload" not in found:
        raise ForeignInput("the column payload is missing", remedy)
    for name, kind in found.items():
        if name not in COLUMNS:
            raise ForeignInput(f"messages have no column {name}", remedy)
        if kind not in COLUMNS[name]:
            raise ForeignInput(f"the column {name} is {kind}", remedy)
    return GROUP_COLUMN in found
