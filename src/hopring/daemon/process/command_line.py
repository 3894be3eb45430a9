"""The command line of `hopd`, and the errors that keep a daemon from starting."""

import argparse
from difflib import get_close_matches
from enum import IntEnum
from pathlib import Path
from typing import Final

from hopring import __version__
from hopring.config import Config, ConfigError, LogFormat, load_config
from hopring.daemon.admin.http_server import parse_place
from hopring.daemon.loop.sleeping import LINGER_US, LINGER_US_MAX
from hopring.session.options import Slow

CLIENTS_MAX: Final = 100_000
"""The same limit as for `sessions_max` in the configuration."""


class HopdExit(IntEnum):
    """Exit codes, the same as those of `hop`; 2 is argparse's own for a wrong command line."""

    OK = 0
    FAILURE = 1
    BAD_CONFIGURATION = 7


class StartRefused(Exception):
    """The daemon cannot start; the message has the reason and a remedy."""

    def __init__(self, code: HopdExit, message: str) -> None:
        super().__init__(message)
        self.code = code


def command_line() -> argparse.ArgumentParser:
    """The parser with all flags of a daemon."""
    parser = argparse.ArgumentParser("hopd", description="One daemon of a cluster.")
    parser.add_argument("file", metavar="FILE", help="the configuration, the same at all daemons")
    parser.add_argument("--name", required=True, help="which daemon of the configuration this is")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="write what happens here, as JSON lines")
    parser.add_argument(
        "--state",
        type=Path,
        metavar="DIR",
        help="where the view counter is kept (default: $STATE_DIRECTORY, or hopring in the user's state)",
    )
    parser.add_argument(
        "--socket", type=Path, metavar="PATH", help="the Unix socket for clients (default: beside the counter)"
    )
    parser.add_argument(
        "--spread-sockets",
        type=Path,
        metavar="DIR",
        default=Path("/tmp"),
        help="where the Unix socket for Spread clients is, named by the spread_port (default: /tmp, as there)",
    )
    parser.add_argument(
        "--listen",
        metavar="ADDRESS",
        help="where to listen for clients by TCP, at client_port and spread_port (default: loopback only)",
    )
    parser.add_argument(
        "--listen-tls",
        metavar="ADDRESS",
        help="where to listen for clients with TLS, at tls_port (default: the daemon's own address)",
    )
    parser.add_argument(
        "--metrics",
        type=_place,
        metavar="ADDRESS:PORT",
        help="serve /metrics, /healthz and /readyz by HTTP; a port alone is on loopback (default: nowhere)",
    )
    parser.add_argument(
        "--log-format", choices=list(LogFormat), help="how lines of the log are written (default: as in FILE)"
    )
    parser.add_argument(
        "--admin",
        type=Path,
        metavar="PATH",
        help="open a Unix socket here for `hop monitor` (default: as in FILE)",
    )
    parser.add_argument("--no-admin", action="store_true", help="open none, whatever FILE says")
    parser.add_argument(
        "--dangerous",
        action="store_true",
        help="let the admin socket also cut, delay, set windows, reload and terminate (default: as in FILE)",
    )
    parser.add_argument(
        "--end-with-stdin", action="store_true", help="end when stdin does, as it does when its writer dies"
    )
    parser.add_argument(
        "--clients-max",
        type=_clients_max,
        metavar="N",
        help="how many clients may be connected at a time (default: as in FILE)",
    )
    parser.add_argument(
        "--slow",
        type=_policies,
        metavar="POLICY,...",
        default=frozenset(Slow),
        help="what clients may choose for the case that they do not keep up (default: kick,spill,drop, "
        "and block if allow in [clients] of FILE has it)",
    )
    parser.add_argument(
        "--linger",
        type=_linger_us,
        metavar="MICROSECONDS",
        default=LINGER_US,
        help=f"how long a busy daemon looks for more before it sleeps; 0 is not at all (default: {LINGER_US})",
    )
    parser.add_argument(
        "--spool",
        type=Path,
        metavar="DIR",
        help="write spools of groups here, by a process beside the daemon (default: as in FILE)",
    )
    parser.add_argument(
        "--spool-group",
        action="append",
        metavar="PATTERN",
        help="a group to spool, or a pattern of groups; may be repeated (default: as in FILE)",
    )
    parser.add_argument("--version", action="version", version=f"hopd {__version__}")
    return parser


def _linger_us(text: str) -> int:
    if not text.isdecimal() or int(text) > LINGER_US_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of microseconds from 0 to {LINGER_US_MAX}")
    return int(text)


def _policies(text: str) -> frozenset[Slow]:
    known = [one.value for one in Slow]
    for one in text.split(","):
        if one not in known:
            raise argparse.ArgumentTypeError(f"{one!r} is not a policy; choose of {', '.join(known)}")
    return frozenset([Slow(one) for one in text.split(",")])


def _clients_max(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= CLIENTS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of clients from 1 to {CLIENTS_MAX}")
    return int(text)


def _place(text: str) -> tuple[str, int]:
    try:
        return parse_place(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def load(file: str, name: str) -> Config:
    """The configuration, with this daemon in it; StartRefused if it cannot be read or has no such daemon."""
    try:
        config = load_config(file)
    except ConfigError as error:
        raise StartRefused(HopdExit.BAD_CONFIGURATION, str(error)) from None
    names = [daemon.name for daemon in config.daemons]
    if name not in names:
        close = get_close_matches(name, names, n=1)
        remedy = f"did you mean {close[0]}?" if close else f"choose one of {', '.join(names[:20])}"
        raise StartRefused(HopdExit.BAD_CONFIGURATION, f"{file}: there is no daemon {name}; {remedy}")
    return config
