"""URLs of daemons: `hop://host:port`, or `hop+unix:///path/of/the.sock` on this host."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from hopring.client.arguments import got
from hopring.client.errors import WrongType, WrongValue
from hopring.session.frames import CLIENT_PORT_DEFAULT

URL_DEFAULT: Final = f"hop://localhost:{CLIENT_PORT_DEFAULT}"
NAME_BYTES: Final = 4
_REMEDY: Final = "write hop://host:port or hop+unix:///path"


@dataclass(frozen=True, slots=True)
class DaemonAddress:
    """A TCP address, or the path of a Unix socket."""

    host: str = ""
    port: int = CLIENT_PORT_DEFAULT
    path: str = ""


def parse_url(url: str) -> DaemonAddress:
    """Parses a URL; raises WrongType or WrongValue."""
    if not isinstance(url, str):
        raise WrongType("url", got(url), _REMEDY)
    try:
        parts = urlsplit(url)
        port = CLIENT_PORT_DEFAULT if parts.port is None else parts.port
    except ValueError as error:
        raise _wrong(url, f" ({error})") from None
    if parts.query or parts.fragment or parts.username is not None or not port:
        raise _wrong(url)
    if parts.scheme == "hop+unix" and parts.path and not parts.netloc and "\0" not in unquote(parts.path):
        return DaemonAddress(path=unquote(parts.path))
    if parts.scheme != "hop" or not parts.hostname or parts.path not in ("", "/"):
        raise _wrong(url)
    return DaemonAddress(parts.hostname, port)


def _wrong(url: str, why: str = "") -> WrongValue:
    return WrongValue("url", f"{url!r} is no address of a daemon{why}", _REMEDY)


def unix_url(path: Path) -> str:
    """The URL of a Unix socket; a relative path stays relative, because the kernel limits its length."""
    return f"hop+unix:{'//' if path.is_absolute() else ''}{quote(str(path))}"


def random_name() -> str:
    """A unique name for a session that was given none."""
    return f"c{os.getpid()}-{os.urandom(NAME_BYTES).hex()}"


def parse_urls(url: str | Sequence[str]) -> tuple[str, ...]:
    """Parses one URL, several separated by commas, or a sequence of URLs."""
    if isinstance(url, bytes | bytearray) or not isinstance(url, Sequence):
        raise WrongType("url", got(url), f"{_REMEDY}, or a list of them")
    urls = tuple([one.strip() for one in url.split(",")] if isinstance(url, str) else url)
    if not urls:
        raise WrongValue("url", "no daemon is named", _REMEDY)
    for one in urls:
        parse_url(one)
    return urls
