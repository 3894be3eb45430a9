"""What can be typed at the monitor's screen: one line is one order, and its outcome a few lines of text."""

from collections.abc import Mapping
from typing import Any, Final

import click

from hopring.cli.exits import Failure
from hopring.cli.monitor import deeds
from hopring.cli.monitor.channels import Answer, Channels, Sight
from hopring.cli.monitor.partition import Sides, in_force, read_sides, show_sides
from hopring.config.units import SIZE

HELP: Final = (
    "define eu1 eu2 | us1    a partition, of daemons and sites; nothing is sent yet",
    "review                  the partition that is defined, and the one in force",
    "send                    the defined partition takes effect",
    "cancel                  no partition: all reach each other again",
    "window personal=100 global=400 packet=46 bytes=1MiB bundles=512 [DAEMON ...]",
    "reload [DAEMON ...]     read the configuration again",
    "terminate DAEMON ...    end daemons",
    "quit",
)
_KEYS: Final = {
    "personal": "personal_segments",
    "global": "global_segments",
    "packet": "packet_segments",
    "bytes": "bytes",
    "bundles": "bundles",
}


class Quit(Exception):
    """Enough."""


class Orders:
    """The monitor's own state is a partition that was defined and not sent."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._defined: Sides | None = None

    def obey(self, line: str) -> list[str]:
        """Carries an order out; what is to be shown of it."""
        verb, _, rest = line.strip().partition(" ")
        if not verb:
            return []
        try:
            return self._obey(verb, rest.strip())
        except (ValueError, click.ClickException) as error:
            return [error.format_message() if isinstance(error, click.ClickException) else str(error)]

    def _obey(self, verb: str, rest: str) -> list[str]:
        match verb:
            case "quit" | "exit" | "q":
                raise Quit
            case "help" | "?":
                return list(HELP)
            case "define":
                self._defined = read_sides(rest, self._look().sites)
                return [f"defined: {show_sides(self._defined)}; `send` makes it so"]
            case "review":
                defined = "none" if self._defined is None else show_sides(self._defined)
                return [f"defined: {defined}", f"in force: {show_sides(in_force(self._look()))}"]
            case "send":
                if self._defined is None:
                    raise ValueError("nothing is defined; define eu1 eu2 | us1")
                return _shown(deeds.send_partition(self._channels, self._look(), self._defined))
            case "cancel" | "heal":
                self._defined = None
                return _shown(deeds.heal(self._channels, self._look()))
            case "window":
                given, names = _read_windows(rest)
                return _shown(deeds.set_windows(self._channels, self._look(), names, given))
            case "reload":
                return _shown(deeds.reload(self._channels, self._look(), rest.split()))
            case "terminate":
                if not rest:
                    raise ValueError("terminate whom? name daemons")
                return _shown(deeds.terminate(self._channels, self._look(), rest.split()))
            case _:
                return [f"there is no order {verb}; try help"]

    def _look(self) -> Sight:
        sight = self._channels.look()
        if not sight.seen:
            raise Failure("no daemon answers")
        return sight


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


def _shown(answers: Mapping[str, Answer]) -> list[str]:
    return [
        f"{name}: {words(answer.words.get('result', {})) if answer.ok else answer.why}"
        for name, answer in answers.items()
    ]


def words(result: Mapping[str, Any]) -> str:
    """What a daemon told of what it did."""
    shown = {key: ",".join(value) if isinstance(value, list) else value for key, value in result.items()}
    return " ".join([f"{key}={value}" for key, value in shown.items() if value != ""]) or "ok"
