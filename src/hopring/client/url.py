"""Where a daemon is: `hop://host:port`, or `hop+unix:///path/of/the.sock` on this host."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from hopring.session.frames import CLIENT_PORT_DEFAULT

URL_DEFAULT: Final = f"hop://localhost:{CLIENT_PORT_DEFAULT}"
NAME_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class Where:
    """A TCP address, or the path of a Unix socket."""

    host: str = ""
    port: int = CLIENT_PORT_DEFAULT
    path: str = ""


def parse_url(url: str) -> Where:
    """The address in a URL; ValueError says what is wrong with it."""
    parts = urlsplit(url)
    if parts.scheme == "hop+unix" and parts.path and not parts.netloc:
        return Where(path=unquote(parts.path))
    if parts.scheme != "hop" or not parts.hostname or parts.path not in ("", "/"):
        raise ValueError(f"{url!r} is no address of a daemon; write hop://host:port or hop+unix:///path")
    try:
        port = parts.port
    except ValueError as error:
        raise ValueError(f"{url!r} has no valid port ({error}); write hop://host:port") from None
    return Where(parts.hostname, CLIENT_PORT_DEFAULT if port is None else port)


def unix_url(path: Path) -> str:
    """The URL of a Unix socket; a relative path stays so, for the kernel limits the length of an address."""
    return f"hop+unix:{'//' if path.is_absolute() else ''}{quote(str(path))}"


def any_name() -> str:
    """A name for a session that does not care for its own."""
    return f"c{os.getpid()}-{os.urandom(NAME_BYTES).hex()}"


def parse_urls(url: str | Sequence[str]) -> tuple[str, ...]:
    """One URL, several with commas between them, or a sequence of them; checked."""
    urls = tuple([one.strip() for one in url.split(",")] if isinstance(url, str) else url)
    if not urls:
        raise ValueError("no daemon is named; write hop://host:port or hop+unix:///path")
    for one in urls:
        parse_url(one)
    return urls
