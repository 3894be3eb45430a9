"""The command line of the monitor's screen: each line is a command, its result a few lines of text."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import click

from hopring.cli.exits import Failure
from hopring.cli.monitor import actions
from hopring.cli.monitor.actions import Sides, in_force, read_sides, show_sides
from hopring.cli.monitor.admin_client import AdminClient, AdminReply, Fleet, choose
from hopring.config.units import DURATION, SIZE
from hopring.daemon.admin.protocol import CUT_US_MAX

HELP: Final = (
    "define eu1 eu2 | us1    a partition, of daemons and sites; nothing is sent yet",
    "review                  the partition that is defined, and the one in force",
    "send [for 30s] [wait]   the defined partition takes effect, until cancel or for this time",
    "cancel [wait]           no partition: all reach each other again",
    "window personal=100 global=400 packet=46 bytes=1MiB bundles=512 [DAEMON ...]",
    "reload [DAEMON ...]     read the configuration again",
    "terminate DAEMON ...    end daemons",
    "yes                     confirm window, reload or terminate",
    "quit",
)
WAIT_SECONDS: Final = 30.0
"""How long `send wait` and `cancel wait` wait for the views."""

_KEYS: Final = {
    "personal": "personal_segments",
    "global": "global_segments",
    "packet": "packet_segments",
    "bytes": "bytes",
    "bundles": "bundles",
}


Action = Callable[[], list[str]]
"""An action that returns the lines to show."""


class Quit(Exception):
    """The user ends the screen."""


class ScreenCommands:
    """State: a partition that was defined and not sent, and a command that waits for confirmation."""

    def __init__(self, admin: AdminClient, later: Callable[[Action], None]) -> None:
        """`later` runs actions that take long in the background and shows their result."""
        self._channels = admin
        self._later = later
        self._defined: Sides | None = None
        self._asked: Action | None = None  # Runs if the next command is `yes`.
        self.closed = False
        """Set when the screen ends: background actions give up."""

    def obey(self, line: str) -> list[str]:
        """Runs a command; returns the lines to show."""
        name, _, rest = line.strip().partition(" ")
        if not name:
            return []
        asked, self._asked = self._asked, None
        return _told(asked) if name == "yes" and asked else _told(lambda: self._obey(name, rest.strip()))

    def _obey(self, name: str, rest: str) -> list[str]:
        match name:
            case "quit" | "exit" | "q":
                raise Quit
            case "help" | "?":
                return list(HELP)
            case "define" | "review" | "send" | "cancel" | "heal":
                return self._obey_about_partitions(name, rest)
            case "window":
                given, names = _read_windows(rest)
                words = " ".join([f"{key}={value}" for key, value in given.items()])
                return self._ask(f"set {words}", names, partial(actions.set_windows, names=names, given=given))
            case "reload":
                names = rest.split()
                return self._ask("reload the configuration", names, partial(actions.reload, names=names))
            case "terminate":
                if not rest:
                    raise ValueError("name the daemons to terminate")
                names = rest.split()
                return self._ask("terminate", names, partial(actions.terminate, names=names))
            case "yes":
                return ["nothing waits for confirmation"]
            case _:
                return [f"there is no command {name}; try help"]

    def _obey_about_partitions(self, name: str, rest: str) -> list[str]:
        match name:
            case "define":
                self._defined = read_sides(rest, self._look().sites)
                return [f"defined: {show_sides(self._defined)}; `send` makes it so"]
            case "review":
                defined = "none" if self._defined is None else show_sides(self._defined)
                return [f"defined: {defined}", f"in force: {show_sides(in_force(self._look()))}"]
            case "send":
                if self._defined is None:
                    raise ValueError("nothing is defined; define eu1 eu2 | us1")
                for_us, wait = _read_send(rest)
                answers = actions.send_partition(self._channels, self._look(), self._defined, for_us)
                return self._waiting(answers, self._defined, wait)
            case _:
                if rest not in ("", "wait"):
                    raise ValueError(f"{name} {rest}? write {name}, or {name} wait")
                self._defined, fleet = None, self._look()
                answers = actions.heal(self._channels, fleet)
                return self._waiting(answers, actions.one_side(fleet), bool(rest))

    def _ask(
        self, what: str, names: Sequence[str], action: Callable[[AdminClient, Fleet], dict[str, AdminReply]]
    ) -> list[str]:
        whom = ", ".join([one.name for one in choose(self._look(), names)])
        self._asked = lambda: _shown(action(self._channels, self._look()))
        return [f"{what}: {whom}; type yes to do it, anything else not to"]

    def _waiting(self, answers: Mapping[str, AdminReply], sides: Sides, wait: bool) -> list[str]:
        def waited() -> list[str]:
            taken = actions.wait_for_sides(self._channels, sides, answers, WAIT_SECONDS, lambda: self.closed)
            return [f"all daemons asked are in the views expected, after {taken:.1f} s"]

        if wait and all(answer.ok for answer in answers.values()):
            self._later(lambda: _told(waited))
        return _shown(answers)

    def _look(self) -> Fleet:
        fleet = self._channels.look()
        if not fleet.seen:
            raise Failure("no daemon answers")
        return fleet


def _told(action: Action) -> list[str]:
    """The lines to show for an action, including its error."""
    try:
        return action()
    except (ValueError, click.ClickException) as error:
        return [error.format_message() if isinstance(error, click.ClickException) else str(error)]


def _read_send(text: str) -> tuple[int | None, bool]:
    """Parses `for 30s wait`: the duration, and whether to wait for the views."""
    words = text.split()
    wait = "wait" in words
    match [word for word in words if word != "wait"]:
        case []:
            return None, wait
        case ["for", duration]:
            return read_cut_time(duration), wait
        case _:
            raise ValueError(f"send {text}? write send, send for 30s, or send for 30s wait")


def read_cut_time(text: str) -> int:
    """Parses the duration of a cut, in microseconds; ValueError says what is wrong."""
    try:
        value = DURATION.read(text)
    except ValueError as error:
        raise ValueError(f"{text!r} {error}; write it as 30s") from None
    if not 1 <= value <= CUT_US_MAX:
        raise ValueError(f"{text!r} is out of range; choose up to {DURATION.write(CUT_US_MAX)}")
    return value


def _read_windows(text: str) -> tuple[dict[str, int], list[str]]:
    given: dict[str, int] = {}
    names: list[str] = []
    for word in text.split():
        key, is_setting, value = word.partition("=")
        if not is_setting:
            names.append(word)
        elif key not in _KEYS:
            raise ValueError(f"there is no window {key}; choose of {', '.join(_KEYS)}")
        else:
            given[_KEYS[key]] = int(value) if value.isdecimal() else _size(value)
    if not given:
        raise ValueError(f"which window? write one of {', '.join([f'{key}=' for key in _KEYS])}")
    return given, names


def _size(text: str) -> int:
    try:
        return SIZE.read(text)
    except ValueError as error:
        raise ValueError(f"{text!r} {error}; write it as {SIZE.example}") from None


def _shown(answers: Mapping[str, AdminReply]) -> list[str]:
    return [
        f"{name}: {words(answer.words.get('result', {})) if answer.ok else answer.why}"
        for name, answer in answers.items()
    ]


def words(result: Mapping[str, Any]) -> str:
    """The result in a daemon's answer, as text."""
    shown = {key: ",".join(value) if isinstance(value, list) else value for key, value in result.items()}
    return " ".join([f"{key}={value}" for key, value in shown.items() if value != ""]) or "ok"
