"""The spooler of a daemon: `hop spool run` as a process beside the daemon's loop, watched and started again.

A disk that hangs stops the spooler only: its backlog waits at the daemon, by the policy of its session. The
spooler ends with its stdin, a pipe from the daemon, so it does not outlive a daemon that is killed.

Below       the event loop, `hop spool run` (cli/spool.py).
Above       daemon/hopd.py, which says when it begins and ends.
Invariants  at most one process runs; after an end that nobody asked for, the next start waits, twice as long
            each time, up to BACK_OFF_US_MAX, and again BACK_OFF_US after one that ran for STEADY_US.
"""

import os
import signal
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final
from urllib.parse import quote

from hopring.config import Config, SpoolTuning
from hopring.config.spooling import SPOOL_SETTINGS
from hopring.daemon.admin.description import SpoolerReport
from hopring.daemon.clients.listening import ClientAddresses
from hopring.daemon.log import DaemonLog
from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.process.command_line import HopdExit, StartRefused
from hopring.ids import NEVER

NAME: Final = "spooler"
"""The name of its session."""

BACK_OFF_US: Final = 500_000
BACK_OFF_US_MAX: Final = 30_000_000
STEADY_US: Final = 30_000_000

UP_US: Final = 2_000_000
"""A process that has run for this long counts as up; a younger one may end like the one before."""

END_US_MAX: Final = 2_000_000
"""How long a spooler that is asked to end may take to write what it has received."""

KILLED_SECONDS_MAX: Final = 1.0
"""How long a killed process is waited for; one in a call to a disk that hangs may stay longer."""

LINE_BYTES_MAX: Final = 1_024
_READ_BYTES: Final = 4_096
_FLAGS: Final = {
    "sync": "--sync",
    "segment": "--segment",
    "segment_age": "--segment-age",
    "retain": "--retain",
    "retain_age": "--retain-age",
}


def spool_settings(arguments: Namespace, config: Config) -> SpoolTuning | None:
    """What this daemon spools, if anything; flags override the configuration."""
    spool, name = config.spool, arguments.name
    directory, groups = arguments.spool, tuple(arguments.spool_group or spool.groups)
    if directory is None:
        if spool.directory is None:
            if arguments.spool_group:
                raise StartRefused(
                    HopdExit.BAD_CONFIGURATION, "--spool-group without a directory; add --spool DIR"
                )
            return None
        if spool.daemons is not None and name not in spool.daemons:
            return None
        filled = spool.directory.replace("{name}", name).replace("{cluster}", config.cluster)
        directory = Path(arguments.file).parent / filled
    if not groups:
        raise StartRefused(HopdExit.BAD_CONFIGURATION, "--spool without groups; add --spool-group PATTERN")
    return SpoolTuning(
        str(Path(directory).absolute()),
        groups,
        retain_until_archived=spool.retain_until_archived,
        **{one.field: getattr(spool, one.field) for one in SPOOL_SETTINGS},
    )


def client_url(addresses: ClientAddresses) -> str:
    """Where the spooler connects: the Unix socket, or else the port; StartRefused if there is neither."""
    if addresses.path is not None:
        return f"hop+unix://{quote(str(addresses.path.absolute()))}"
    if addresses.address is None:
        problem = "a daemon without a socket or a port for clients cannot spool; choose another --socket"
        raise StartRefused(HopdExit.BAD_CONFIGURATION, problem)
    host, port = addresses.address
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"hop://[{host}]:{port}" if ":" in host else f"hop://{host}:{port}"


def spool_command(spool: SpoolTuning, url: str) -> list[str]:
    """The command line of the spooler."""
    command = [sys.executable, "-P", "-m", "hopring.cli.main", "spool", "run", "--end-with-stdin"]
    command += [f"--spool={spool.directory}", f"--at={url}", f"--name={NAME}"]
    command += [f"--group={pattern}" for pattern in spool.groups]
    for setting in SPOOL_SETTINGS:
        value = getattr(spool, setting.field)
        if value is not None:
            assert setting.kind is not None, "each of them has a unit"
            command.append(f"{_FLAGS[setting.key]}={setting.kind.write(value)}")
    return command + (["--retain-until-archived"] if spool.retain_until_archived else [])


class SpoolerProcess:
    """Runs the spooler, and starts it again when it has ended."""

    def __init__(self, loop: Loop, log: DaemonLog, command: Sequence[str]) -> None:
        """Starts it in the next turn of the loop."""
        self._loop = loop
        self._log = log
        self._command = list(command)
        self._process: subprocess.Popen[bytes] | None = None
        self._end_fd = -1  # A descriptor that can be read when the process has ended.
        self._starts = 0
        self._started_us = 0
        self._back_off_us = BACK_OFF_US
        self._problem = ""
        self._line = b""
        self._last = ""  # The last line that it wrote.
        self._stopping = False
        self._ended: Callable[[], None] = lambda: None
        self._alarm = loop.alarm(self._ring)
        self._alarm.set(loop.now_us())

    def report(self) -> SpoolerReport:
        """Its state for status, metrics and doctor."""
        if self._process is None:
            return SpoolerReport(None, self._starts, self._problem)
        young = self._loop.now_us() - self._started_us < UP_US
        return SpoolerReport(self._process.pid, self._starts, self._problem if young else "")

    def stop(self, ended: Callable[[], None]) -> None:
        """Asks it to write what it has received and to end; calls `ended` then, or after END_US_MAX."""
        self._stopping, self._ended = True, ended
        if self._process is None:
            self._alarm.set(NEVER)
            ended()
            return
        self._process.terminate()
        self._alarm.set(self._loop.now_us() + END_US_MAX)

    def close(self) -> None:
        """Kills it, if it still runs."""
        self._stopping, self._ended = True, lambda: None
        self._alarm.drop()
        if self._process is not None:
            self._process.kill()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(KILLED_SECONDS_MAX)
            self._forget(self._process)

    def _ring(self) -> None:
        if self._stopping:
            self._log.say("warning", text=f"the spooler has not ended after {END_US_MAX / 1e6:g} s")
            self._ended()
        else:
            self._start()

    def _start(self) -> None:
        self._starts += 1
        self._started_us = self._loop.now_us()
        try:
            # A process group of its own: Ctrl-C at the terminal does not reach it; the daemon ends it.
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                process_group=0,
            )
        except OSError as error:
            self._fail(f"the spooler cannot be started: {error}")
            return
        assert process.stderr is not None, "it was started with a pipe"
        self._process, self._line, self._last = process, b"", ""
        os.set_blocking(process.stderr.fileno(), False)
        self._end_fd = os.pidfd_open(process.pid)
        self._loop.register(process.stderr.fileno(), self._read)
        self._loop.register(self._end_fd, self._reap)
        self._log.say("spooler", pid=process.pid, starts=self._starts)

    def _read(self, _events: int) -> None:
        self._copy_lines()

    def _copy_lines(self) -> bool:
        """Copies its lines to the daemon's log; returns whether there were any bytes."""
        pipe = self._pipe
        try:
            chunk = os.read(pipe.fileno(), _READ_BYTES)
        except BlockingIOError:
            return False
        if not chunk:
            self._loop.unregister(pipe.fileno())
            pipe.close()
            return False
        *lines, self._line = (self._line + chunk).split(b"\n")
        self._line = self._line[-LINE_BYTES_MAX:]
        for line in lines:
            self._last = line[:LINE_BYTES_MAX].decode(errors="replace").removeprefix("hop: ")
            self._log.say("spooler", text=self._last)
        return True

    @property
    def _pipe(self) -> IO[bytes]:
        assert self._process is not None, "its descriptors are unregistered when it has ended"
        assert self._process.stderr is not None, "it was started with a pipe"
        return self._process.stderr

    def _reap(self, _events: int) -> None:
        process = self._process
        assert process is not None, "its descriptors are unregistered when it has ended"
        code = process.wait()
        while not self._pipe.closed and self._copy_lines():
            pass
        self._forget(process)
        if self._stopping:
            self._alarm.set(NEVER)
            self._ended()
            return
        if self._loop.now_us() - self._started_us >= STEADY_US:
            self._back_off_us = BACK_OFF_US
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        self._fail(f"the spooler has ended ({how})" + (f": {self._last}" if self._last else ""))

    def _fail(self, problem: str) -> None:
        self._problem = problem
        self._log.say("spooler_ended", text=problem, again_in_seconds=self._back_off_us / 1e6)
        self._alarm.set(self._loop.now_us() + self._back_off_us)
        self._back_off_us = min(2 * self._back_off_us, BACK_OFF_US_MAX)

    def _forget(self, process: subprocess.Popen[bytes]) -> None:
        self._process = None
        self._loop.unregister(self._end_fd)
        os.close(self._end_fd)
        for pipe in (process.stderr, process.stdin):
            assert pipe is not None, "it was started with pipes"
            if pipe is process.stderr and not pipe.closed:
                self._loop.unregister(pipe.fileno())
            with suppress(OSError):
                pipe.close()
