"""A spooler: a session that joins groups and writes what comes of them to spools.

It takes nothing more from its daemon while a disk refuses what it has: the daemon keeps what waits, by the
policy that the session was connected with. What it could not hear is a record of its own: after it was not
running, after a reconnection, and where its daemon had to drop messages. Of batches that count once (once.py)
the spool keeps how far they came, so that a spooler that was started again drops what its spool has.
"""

import time
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from hopring.client.blocking import Session
from hopring.client.errors import TimedOut
from hopring.client.sequence import EventSequence
from hopring.client.spooling import Portion, Scribe, away, portions
from hopring.groups.private import is_private
from hopring.ids import GroupName
from hopring.session.place import Place
from hopring.spool.errors import AppendFailed, SpoolError, SpoolFull
from hopring.spool.options import SpoolOptions
from hopring.spool.reading import read
from hopring.spool.record import NO_PLACE
from hopring.spool.writer import SpoolWriter, wall_us

MANY_MESSAGES: Final = 4_000
WAIT_SECONDS: Final = 0.1
LOOK_SECONDS: Final = 1.0
"""How often new groups are looked for, and a disk that refused is tried again."""

_GLOB: Final = frozenset("*?[")


class Spooler:
    """Writes the groups that match some patterns."""

    def __init__(
        self,
        session: Session,
        root: Path,
        patterns: Sequence[str],
        options: SpoolOptions,
        say: Callable[[str], None] = lambda _: None,
        heard: Callable[[EventSequence], None] = lambda _: None,
    ) -> None:
        """Joins nothing yet; `say` is told in words what happens, `heard` is shown all that comes."""
        self.session = session
        self.writers: dict[str, SpoolWriter] = {}
        self._root = root
        self._patterns = tuple(patterns)
        self._options = options
        self._say = say
        self._heard = heard
        self._scribe = Scribe()
        self._waiting: dict[str, list[Portion]] = {}  # What a disk has refused.
        self._look_at = 0.0
        self._stopped = False

    def run(self) -> None:
        """Spools until `stop`, from a handler of signals for one; errors of session and spools end it."""
        try:
            while not self._stopped:
                self.step()
        finally:
            self.close()

    def stop(self) -> None:
        """Lets `run` end after the events in hand."""
        self._stopped = True

    def step(self, wait_seconds: float = WAIT_SECONDS) -> None:
        """Looks for groups if it is time, takes what has come, writes it down."""
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + LOOK_SECONDS
            self._join_new()
        if self._waiting:
            self._retry(wait_seconds)
            return
        events = self.session.receive_many(max_messages=MANY_MESSAGES, max_wait_seconds=wait_seconds)
        self._heard(events)
        self._waiting = {group: portions(runs) for group, runs in self._scribe.runs(events).items()}
        self._write()
        self._tick()

    def close(self) -> None:
        """Makes all safe and lets the spools go."""
        writers, self.writers = self.writers, {}
        for writer in writers.values():
            writer.close()

    def _join_new(self) -> None:
        for group in sorted(self._wanted() - set(self.writers)):
            self._open(group)
            self._scribe.open(group)
            self.session.join(group)
            self._say(f"spooling {group} to {self.writers[group].directory} from {self.writers[group].end}")

    def _wanted(self) -> set[str]:
        plain = {pattern for pattern in self._patterns if not _GLOB & set(pattern)}
        globs = [pattern for pattern in self._patterns if pattern not in plain]
        if not globs:
            return plain
        try:
            known = [one.name for one in self.session.groups(timeout_seconds=LOOK_SECONDS)]
        except TimedOut:
            return plain
        names = [name for name in known if not is_private(GroupName(name))]
        return plain | {name for name in names if any(fnmatchcase(name, glob) for glob in globs)}

    def _open(self, group: str) -> None:
        writer = SpoolWriter(self._root, group, self._options)
        self.writers[group] = writer
        found = writer.recovery
        if found.cut_bytes or found.damage:
            lost = ", ".join(f"{one.first} to {one.end}" for one in found.damage) or "none"
            self._say(f"{writer.directory}: cut a torn tail of {found.cut_bytes} bytes; damaged: {lost}")
        self.session._core.kept.once.remember(group, writer.marks)
        if writer.end:
            since_us, last = _last(writer)
            writer.append([away(group, "the spooler was not running", since_us, wall_us(), last)])

    def _write(self) -> None:
        """Appends what waits, group by group; what a disk refuses goes on waiting."""
        for group in sorted(self._waiting):
            try:
                self._append(self.writers[group], self._waiting[group])
            except (SpoolFull, AppendFailed) as error:
                self._say(f"{error} (tried again every {LOOK_SECONDS:g} s; nothing more is taken meanwhile)")
                return
            del self._waiting[group]

    def _append(self, writer: SpoolWriter, waiting: list[Portion]) -> None:
        while waiting:
            runs, mark = waiting[0]
            # The session has dropped what came again. What is new with a lower number was overtaken, as FIFO
            # and Reliable messages may be: it is written, and the mark of the others stays.
            writer.append(runs, mark if mark is not None and writer.takes_mark(mark) else None)
            del waiting[0]

    def _retry(self, wait_seconds: float) -> None:
        time.sleep(min(LOOK_SECONDS, max(wait_seconds, 0.01)))
        self._write()

    def _tick(self) -> None:
        for writer in self.writers.values():
            try:
                writer.tick()
            except (SpoolFull, AppendFailed) as error:
                self._say(str(error))


def _last(writer: SpoolWriter) -> tuple[int, Place | None]:
    """When the last record came, and its place if it is a message."""
    try:
        (record,) = read(writer.directory, writer.synced_end - 1, writer.synced_end)
    except (SpoolError, ValueError):
        return 0, None
    place = record.facts.place
    return record.facts.time_us, None if place == NO_PLACE else place
