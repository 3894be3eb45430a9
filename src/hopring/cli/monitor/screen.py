"""The monitor on a terminal: a live table, and below it a command line.

Each line of the command line is a command; its result is a few lines of text.
"""

import os
import select
import sys
import termios
import time
import tty
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from hopring.cli.monitor import actions
from hopring.cli.monitor.actions import Sides, in_force, read_sides, show_sides
from hopring.cli.monitor.admin_client import AdminClient, AdminReply, Fleet, choose
from hopring.cli.monitor.table import HEADS, RIGHT, StatusCounters, counts_of, heads_that_fit, rates, row_of
from hopring.cli.terminal import Failure
from hopring.config.units import DURATION, SIZE
from hopring.daemon.admin.protocol import CUT_US_MAX
from hopring.printable import printable

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


LOOK_SECONDS: Final = 1.0
KEY_SECONDS: Final = 0.1
SAID_LINES: Final = 12
LINE_CHARACTERS_MAX: Final = 500
_READ_BYTES: Final = 1024


class MonitorScreen:
    """Asks daemons in a thread of its own, so that a silent daemon does not block typing."""

    def __init__(self, admin: AdminClient, console: Console | None = None) -> None:
        self._channels = admin
        self._console = console or Console(highlight=False)
        self._waiter = ThreadPoolExecutor(1)  # For orders that wait for views.
        self._waits: list[Future[list[str]]] = []
        self._orders = ScreenCommands(admin, lambda deed: self._waits.append(self._waiter.submit(deed)))
        self._said: deque[str] = deque(["type help for a list of commands"], maxlen=SAID_LINES)
        self._line = ""
        self._sight: Fleet | None = None
        self._problem = ""
        self._before: dict[str, StatusCounters] = {}
        self._rows: list[list[str]] = []

    def run(self) -> None:
        """Runs until `quit`, Ctrl-C or Ctrl-D."""
        with (
            _keys(sys.stdin.fileno()),
            self._waiter,
            ThreadPoolExecutor(1) as asker,
            Live(console=self._console, screen=True, auto_refresh=False) as live,
        ):
            try:
                self._loop(asker, live)
            finally:
                self._orders.closed = True

    def _loop(self, asker: ThreadPoolExecutor, live: Live) -> None:
        look: Future[Fleet] = asker.submit(self._channels.look)
        look_at = 0.0
        try:
            while True:
                live.update(self._render(), refresh=True)
                self._type(_read_keys(sys.stdin.fileno()))
                for one in [one for one in self._waits if one.done()]:
                    self._waits.remove(one)
                    self._said.extend(one.result())
                if look.done() and not look_at:
                    self._take(look)
                    look_at = time.monotonic() + LOOK_SECONDS
                elif look_at and time.monotonic() >= look_at:
                    look, look_at = asker.submit(self._channels.look), 0.0
        except (Quit, KeyboardInterrupt):
            return

    def _take(self, look: Future[Fleet]) -> None:
        try:
            self._sight, self._problem = look.result(), ""
        except Failure as error:
            self._sight, self._problem = None, error.format_message()
            return
        now, self._rows = time.monotonic(), []
        for one in self._sight.seen:
            counts = counts_of(one.status, now)
            self._rows.append(row_of(one.status, rates(counts, self._before.get(one.name))))
            self._before[one.name] = counts

    def _type(self, keys: str) -> None:
        for key in keys:
            if key in "\r\n":
                line, self._line = self._line, ""
                self._said.append(f"> {line}")
                self._said.extend(self._orders.obey(line))
            elif key in "\x7f\b":
                self._line = self._line[:-1]
            elif key == "\x15":  # Ctrl-U
                self._line = ""
            elif key == "\x04":  # Ctrl-D
                raise Quit
            elif key.isprintable() and len(self._line) < LINE_CHARACTERS_MAX:
                self._line += key

    def _render(self) -> RenderableType:
        table = Table(box=None, pad_edge=False)
        rows = self._rows if self._sight is not None else []
        heads = heads_that_fit(rows, self._console.width)
        for head in heads:
            table.add_column(head, justify="right" if head in RIGHT else "left", no_wrap=True)
        for row in rows:
            cells = dict(zip(HEADS, row, strict=True))
            table.add_row(
                *[Text(cells[head]) for head in heads], style=None if cells["STATE"] == "OP" else "yellow"
            )
        parts: list[RenderableType] = [table, Text()]
        if self._sight is None:
            parts.append(Text(printable(self._problem or "asking ..."), style="dim"))
        else:
            parts.extend(self._remarks(self._sight))
        parts += [Text(printable(line), style="dim") for line in self._said]
        parts.append(Text(f"> {self._line}▏", style="bold"))
        return Group(*parts)

    def _remarks(self, fleet: Fleet) -> Iterator[Text]:
        sides = in_force(fleet)
        if len(sides) > 1:
            yield Text(printable(f"partition: {show_sides(sides)}"), style="bold red")
        for path, why in fleet.unheard:
            yield Text(printable(f"{path}: {why}"), style="yellow")
        if fleet.missing:
            yield Text(printable(f"cannot be asked from here: {', '.join(fleet.missing)}"), style="yellow")


@contextmanager
def _keys(fd: int) -> Iterator[None]:
    """Delivers keys as they are pressed; restores the terminal at the end."""
    before = termios.tcgetattr(fd)
    tty.setcbreak(fd)
    try:
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def _read_keys(fd: int) -> str:
    """The keys typed since the last call; cursor keys are ignored."""
    if not select.select([fd], [], [], KEY_SECONDS)[0]:
        return ""
    typed = os.read(fd, _READ_BYTES)
    if not typed:
        raise Quit
    text = typed.decode(errors="ignore")
    return "" if text.startswith("\x1b") else text
