"""The daemon as a process: `hopd FILE --name NAME`.

It finds itself in the configuration by its name, opens its sockets and looks for the others. Nothing listens
for clients yet: `run` takes a layer above, which gets what the member puts out and sends with `Member.submit`.
"""

import argparse
import contextlib
import os
import secrets
import signal
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from enum import IntEnum
from pathlib import Path
from typing import Final

from hopring import __version__
from hopring.config import Config, ConfigError, cluster_hash, load_config
from hopring.daemon.counter_file import CounterFile
from hopring.daemon.log import Log
from hopring.daemon.loop import Loop
from hopring.daemon.member import Member, Up, Upward
from hopring.daemon.report import Report
from hopring.daemon.trace_file import TraceFile
from hopring.daemon.unusable import Unusable
from hopring.ids import NEVER, DaemonId, Incarnation, Process

DRAIN_US_MAX: Final = 2_000_000
"""How long a daemon that is to end waits until everybody has what it sent."""

DRAIN_LOOK_US: Final = 5_000

Above = Callable[[Loop, Member], Up]
"""Makes the layer above a member; what it returns gets everything that the member puts out."""


class Exit(IntEnum):
    """Exit codes, the same as those of `hop`; 2 is argparse's own for a wrong command line."""

    OK = 0
    FAILURE = 1
    BAD_CONFIGURATION = 7


class Refused(Exception):
    """The daemon cannot start; the message says why and what to do."""

    def __init__(self, code: Exit, message: str) -> None:
        super().__init__(message)
        self.code = code


def nobody(_loop: Loop, _member: Member) -> Up:
    """No layer above."""
    return lambda _events: None


class Hopd:
    """One life of a daemon: the member, and what is written down of it."""

    def __init__(self, loop: Loop, config: Config, arguments: argparse.Namespace, above: Above) -> None:
        name: str = arguments.name
        self.log = Log(name)
        me = Process(config.daemon_id(name), Incarnation(secrets.randbits(64)))
        names = {DaemonId(at): daemon.name for at, daemon in enumerate(config.daemons)}
        self._counter = CounterFile(_counter_path(arguments.state, config.cluster, name))
        self._loop = loop
        self._leave_by_us = NEVER
        self._look_again = loop.alarm(self._drain)
        self._report = Report(loop, self.log, names)
        self._member = Member(
            loop,
            config,
            me,
            self._up,
            counter=self._counter.start,
            note=self._note,
            reached=self._counter.reserve,
        )
        # Only now: a second process of this name, which gets no sockets, must not touch the trace of the first.
        self._trace = None if arguments.trace is None else _open_trace(arguments.trace, me, names, loop)
        self._above = above(loop, self._member)
        self._report.watch(self._member)
        own = config.daemons[me.daemon]
        self.log.say(
            "start",
            version=__version__,
            cluster=config.cluster,
            hash=f"{cluster_hash(config):08x}",
            address=f"{own.address} port {own.port}",
            incarnation=f"{me.incarnation:016x}",
            pid=os.getpid(),
        )
        for warning in self._counter.warnings:
            self.log.say("warning", text=warning)

    def leave(self) -> None:
        """Ends the loop when what was submitted is everywhere, or soon; asked a second time, at once."""
        if self._leave_by_us < NEVER:
            self._loop.stop()
            return
        self.log.say("leave")
        self._leave_by_us = self._loop.now_us() + DRAIN_US_MAX
        self._drain()

    def _drain(self) -> None:
        now_us = self._loop.now_us()
        if self._member.drained or now_us >= self._leave_by_us:
            self._member.leave()
            # What it said leaves at the end of this turn.
            self._loop.call_soon(self._loop.stop)
        else:
            self._look_again.set(now_us + DRAIN_LOOK_US)

    def close(self) -> None:
        """Ends the life."""
        self._member.close()
        if self._trace is not None:
            self._trace.close()
        self._counter.settle()
        self.log.say("end")

    def _note(self, events: Sequence[Upward]) -> None:
        if self._trace is not None and not self._trace.problem:
            self._trace.note(events)
            if self._trace.problem:
                self.log.say("warning", text=self._trace.problem)

    def _up(self, events: Sequence[Upward]) -> None:
        self._report.take(events)
        self._above(events)


def run(words: Sequence[str], above: Above = nobody) -> int:
    """The life of a daemon, from its command line to its exit code."""
    arguments = _parser().parse_args(words)
    loop = Loop()
    try:
        hopd = Hopd(loop, _load(arguments.file, arguments.name), arguments, above)
    except Refused as refused:
        print(f"hopd: {refused}", file=sys.stderr)
        return refused.code
    except Unusable as error:
        print(f"hopd: {error}", file=sys.stderr)
        return Exit.FAILURE
    loop.on_signals(lambda _number: hopd.leave(), [signal.SIGTERM, signal.SIGINT])
    loop.run()
    hopd.close()
    loop.close()
    return Exit.OK


def _parser() -> argparse.ArgumentParser:
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
    parser.add_argument("--version", action="version", version=f"hopd {__version__}")
    return parser


def _load(file: str, name: str) -> Config:
    try:
        config = load_config(file)
    except ConfigError as error:
        raise Refused(Exit.BAD_CONFIGURATION, str(error)) from None
    names = [daemon.name for daemon in config.daemons]
    if name not in names:
        close = get_close_matches(name, names, n=1)
        remedy = f"did you mean {close[0]}?" if close else f"choose one of {', '.join(names[:20])}"
        raise Refused(Exit.BAD_CONFIGURATION, f"{file}: there is no daemon {name}; {remedy}")
    return config


def _open_trace(path: Path, me: Process, names: dict[DaemonId, str], loop: Loop) -> TraceFile:
    try:
        return TraceFile(path, me, names, loop.now_us)
    except OSError as error:
        problem = f"{path}: the trace cannot be written ({error.strerror})"
        raise Refused(Exit.FAILURE, f"{problem}; choose another file for --trace") from None


def _counter_path(directory: Path | None, cluster: str, name: str) -> Path:
    """Makes the directory; if that fails, the counter file says so."""
    if directory is None:
        given = os.environ.get("STATE_DIRECTORY", "").partition(":")[0]
        base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        directory = Path(given) if given else Path(base) / "hopring"
    with contextlib.suppress(OSError):
        directory.mkdir(parents=True, exist_ok=True)
    return directory / f"{cluster}.{name}.views"


def main() -> None:
    """The entry point."""
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
