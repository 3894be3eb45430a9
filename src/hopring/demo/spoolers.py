"""A spooler in each site writes the groups to durable logs, which the pipeline reads at the end.

A spooler is a member of the groups like any other, so its events are part of the history that is checked. It
waits for its daemon in a thread of its own.
"""

import threading
from pathlib import Path
from typing import Final

from hopring.check.trace import ClientEvent, ProcessName
from hopring.client.blocking import Session, connect
from hopring.client.events import Message, View
from hopring.client.receiving.sequence import EventSequence
from hopring.demo.clients import DemoClient
from hopring.demo.scenario import GROUPS, SITES
from hopring.errors import HopError
from hopring.local.blocking import Cluster
from hopring.local.recorder import Recorder, message_name
from hopring.spool.writer import SpoolOptions
from hopring.spooler import Spooler

NAME: Final = "spooler"
DIRECTORY: Final = "spools"
CONNECT_SECONDS: Final = 20.0
STOP_SECONDS: Final = 10.0


class SiteSpooler:
    """The spooler of one site, at its first daemon."""

    def __init__(self, url: str, root: Path) -> None:
        """Does nothing before `start` is called."""
        self.root = root
        self.error: Exception | None = None  # The error that ended it, if any.
        self._url = url
        self._session: Session | None = None
        self._spooler: Spooler | None = None
        self._recorder: Recorder | None = None
        self._views: dict[str, set[str]] = {}  # By group: the daemons of its members.
        self._last: dict[ProcessName, int] = {}  # The last message of each sender.
        self._thread = threading.Thread(target=self._run, name=f"spooler {root.name}", daemon=True)
        self._stopping = threading.Event()

    @property
    def process(self) -> ProcessName | None:
        """Its session as a process of the trace; None until its first view."""
        return None if self._recorder is None else self._recorder.process

    @property
    def events(self) -> list[ClientEvent]:
        """Its trace; to be read after `stop`."""
        return [] if self._recorder is None else self._recorder.events

    def start(self) -> None:
        """Connects and joins in its own thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the writing, with everything received synced to disk. The session stays until `leave`."""
        self._stopping.set()
        if self._spooler is not None:
            self._spooler.stop()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)

    def leave(self) -> None:
        """Ends the session at once."""
        if self._session is not None:
            self._session.abort()

    def is_with(self, daemons: set[str]) -> bool:
        """Whether its views of all groups have members at exactly these daemons."""
        return all(self._views.get(group) == daemons for group in GROUPS)

    def has_all_of(self, client: DemoClient) -> bool:
        """Whether the last message of a client has arrived here."""
        sender = client.recorder.process
        return sender is not None and self._last.get(sender, 0) == client.sent

    def _run(self) -> None:
        try:
            self._session = session = connect(
                self._url, name=NAME, slow="spill", timeout_seconds=CONNECT_SECONDS, reconnect=False
            )
            self._recorder = Recorder(session.daemon, session.name, session.private_group)
            for group in sorted(GROUPS):
                self._recorder.note_join(group)
            options = SpoolOptions(sync_seconds=1.0)
            self._spooler = Spooler(session, self.root, GROUPS, options, heard=self._heard)
            if not self._stopping.is_set():
                self._spooler.run()
        except (HopError, OSError) as error:
            self.error = error

    def _heard(self, batch: EventSequence) -> None:
        assert self._recorder is not None, "it is made before the spooler"
        for event in batch:
            self._recorder.note_event(event)
            if isinstance(event, View):
                self._views[event.group] = {member.daemon for member in event.members}
            elif isinstance(event, Message):
                name = message_name(event.data)
                self._last[name.sender] = name.number


def site_spoolers(cluster: Cluster) -> dict[str, SiteSpooler]:
    """One spooler for each site, by name; not started."""
    root = cluster.directory / DIRECTORY
    return {site: SiteSpooler(cluster.url(f"{site}1"), root / site) for site in sorted(SITES)}
