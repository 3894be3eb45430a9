"""Client of the daemons' admin sockets: those of this host, or of other hosts through a tunnel."""

import os
import socket
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from hopring.cli.daemon_session import Unreachable
from hopring.cli.terminal import Failure

SUFFIX: Final = ".admin"
ANSWER_BYTES_MAX: Final = 16 * 2**20
ASKED_AT_ONCE: Final = 16
_READ_BYTES: Final = 1 << 16


class NoAdminReply(Exception):
    """A socket that gave no answer, with the reason."""


@dataclass(frozen=True, slots=True)
class AdminReply:
    """The answer of a daemon to one request."""

    ok: bool
    words: Mapping[str, Any]

    @property
    def why(self) -> str:
        """The error and the remedy of a refusal."""
        return f"{self.words.get('error', '')}; {self.words.get('remedy', '')}"

    @property
    def denied(self) -> bool:
        """Whether it refused for want of permission."""
        return bool(self.words.get("denied"))


@dataclass(frozen=True, slots=True)
class ReachedDaemon:
    """A daemon that answered, with its status."""

    path: Path
    status: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.status["daemon"])


@dataclass(frozen=True, slots=True)
class Fleet:
    """The daemons that answered at one time, and the sockets that did not."""

    seen: tuple[ReachedDaemon, ...]  # By name.
    unheard: tuple[tuple[Path, str], ...]  # Sockets without an answer, and why.
    denied: bool = False  # One of them would not hear us.

    @property
    def sites(self) -> dict[str, list[str]]:
        """All daemons, by site, that the answering ones know of."""
        sites: dict[str, set[str]] = {}
        for one in self.seen:
            for site, daemons in one.status["sites"].items():
                sites.setdefault(site, set()).update(daemons)
        return {site: sorted(daemons) for site, daemons in sorted(sites.items())}

    @property
    def missing(self) -> list[str]:
        """Daemons that others know of and that did not answer here."""
        known = {daemon for daemons in self.sites.values() for daemon in daemons}
        return sorted(known - {one.name for one in self.seen})


def find_sockets(places: Iterable[Path]) -> list[Path]:
    """The sockets at these paths and in these directories; Unreachable if there are none."""
    found: dict[Path, None] = {}
    given = list(places)
    for place in given:
        if place.is_dir():
            inside = sorted([one for one in place.iterdir() if one.suffix == SUFFIX and _is_socket(one)])
            found.update(dict.fromkeys(inside))
        elif place.suffix == SUFFIX or place.exists():
            found[place] = None
    if not found:
        where = ", ".join(map(str, given)) or "nowhere"
        remedy = (
            "give hopd one with `socket` of [admin] or --admin PATH, and name it or its directory with --admin"
        )
        raise Unreachable(f"there is no admin socket of a daemon in {where}; {remedy}")
    return list(found)


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except OSError:
        return False


def ask(path: Path, seconds: float, verb: str, **fields: object) -> AdminReply:
    """Sends one request and returns the answer; raises NoAdminReply if there is none."""
    line = msgspec.json.encode({"verb": verb, **fields}) + b"\n"
    heard = b""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
            channel.settimeout(seconds)
            channel.connect(str(path))
            with suppress(BrokenPipeError):  # A refusal can be read even if the socket is closed for writing.
                channel.sendall(line)
            while not heard.endswith(b"\n") and len(heard) < ANSWER_BYTES_MAX:
                chunk = channel.recv(_READ_BYTES)
                if not chunk:
                    raise NoAdminReply("the daemon closed the channel")
                heard += chunk
        words = msgspec.json.decode(heard, type=dict[str, Any])
    except TimeoutError:
        raise NoAdminReply(f"no answer within {seconds:g} s") from None
    except msgspec.DecodeError as error:
        raise NoAdminReply(f"what answers is no daemon ({error})") from None
    except (OSError, ValueError) as error:
        raise NoAdminReply(getattr(error, "strerror", None) or str(error)) from None
    return AdminReply(words.get("ok") is True, words)


class AdminClient:
    """Requests to all admin sockets at some paths; the paths are searched again for each round."""

    def __init__(self, places: Sequence[Path], seconds: float) -> None:
        self._places = places
        self.seconds = seconds
        """How long an answer is waited for."""

    def look(self) -> Fleet:
        """Asks all daemons for their status, in parallel."""
        seen: list[ReachedDaemon] = []
        unheard: list[tuple[Path, str]] = []
        denied = False
        paths = find_sockets(self._places)
        for path, answer in zip(paths, self._all([(path, "status", {}) for path in paths]), strict=True):
            if isinstance(answer, AdminReply) and answer.ok and "sites" in answer.words.get("status", {}):
                seen.append(ReachedDaemon(path, answer.words["status"]))
            elif isinstance(answer, AdminReply):
                denied = denied or answer.denied
                unheard.append((path, "a daemon of another version" if answer.ok else answer.why))
            else:
                unheard.append((path, str(answer)))
        seen.sort(key=lambda one: one.name)
        return Fleet(tuple(seen), tuple(unheard), denied)

    def tell(
        self, seen: Iterable[ReachedDaemon], verb: str, fields: Callable[[ReachedDaemon], Mapping[str, object]]
    ) -> dict[str, AdminReply]:
        """Sends a request to each of these daemons; returns the answers by daemon."""
        those = list(seen)
        answers = self._all([(one.path, verb, fields(one)) for one in those])
        told: dict[str, AdminReply] = {}
        for one, answer in zip(those, answers, strict=True):
            if isinstance(answer, NoAdminReply):
                told[one.name] = AdminReply(False, {"error": str(answer), "remedy": "look at its log"})
            else:
                told[one.name] = answer
        return told

    def _all(
        self, questions: Sequence[tuple[Path, str, Mapping[str, object]]]
    ) -> list[AdminReply | NoAdminReply]:
        def one(question: tuple[Path, str, Mapping[str, object]]) -> AdminReply | NoAdminReply:
            path, verb, fields = question
            try:
                return ask(path, self.seconds, verb, **fields)
            except NoAdminReply as unheard:
                return unheard

        with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
            return list(pool.map(one, questions))


def default_places() -> list[Path]:
    """The directories that are searched for admin sockets by default."""
    given = os.environ.get("XDG_RUNTIME_DIR")
    return [Path("/run/hopring"), *([Path(given) / "hopring"] if given else [])]


def choose(fleet: Fleet, names: Sequence[str]) -> list[ReachedDaemon]:
    """The daemons of these names, or all; Failure if one did not answer."""
    by_name = {one.name: one for one in fleet.seen}
    for name in names:
        if name not in by_name:
            where = "cannot be asked from here" if name in fleet.missing else "is none of the daemons"
            raise Failure(f"{name} {where}; those that answer are {', '.join(by_name) or 'none'}")
    return [by_name[name] for name in names or by_name]
