"""A spooler in each site: the groups as durable logs, which the pipeline reads when the story is over.

A spooler is a member of the groups like any other, so what it saw is part of the history that is judged. It
waits for its daemon in a thread of its own.
"""

import threading
from pathlib import Path
from typing import Final

from hopring.check.trace import ClientEvent, ProcessName
from hopring.client.blocking import Session, connect
from hopring.client.events import Message, View
from hopring.client.sequence import EventSequence
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
        """Nothing happens before `start`."""
        self.root = root
        self.error: Exception | None = None  # What ended it, if it was not `stop`.
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
        """Which session it is; None until its first view."""
        return None if self._recorder is None else self._recorder.process

    @property
    def events(self) -> list[ClientEvent]:
        """What it did and saw; to be read when it has been stopped."""
        return [] if self._recorder is None else self._recorder.events

    def start(self) -> None:
        """Connects and joins, meanwhile."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the writing, with all that came safe on disk. The session stays until `leave`."""
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
        """Whether members at just these daemons are in its views of all groups."""
        return all(self._views.get(group) == daemons for group in GROUPS)

    def has_all_of(self, client: DemoClient) -> bool:
        """Whether the last message of a player came here."""
        sender = client.recorder.process
        return sender is not None and self._last.get(sender, 0) == client.sent

    def _run(self) -> None:
        try:
            self._session = session = connect(
                self._url, name=NAME, slow="spill", timeout_seconds=CONNECT_SECONDS, reconnect=False
            )
            self._recorder = Recorder(session.daemon, session.name, session.private_group)
            for group in sorted(GROUPS):
                self._recorder.joins(group)
            options = SpoolOptions(sync_seconds=1.0)
            self._spooler = Spooler(session, self.root, GROUPS, options, heard=self._heard)
            if not self._stopping.is_set():
                self._spooler.run()
        except (HopError, OSError) as error:
            self.error = error

    def _heard(self, batch: EventSequence) -> None:
        assert self._recorder is not None, "it is made before the spooler"
        for event in batch:
            self._recorder.takes(event)
            if isinstance(event, View):
                self._views[event.group] = {member.daemon for member in event.members}
            elif isinstance(event, Message):
                name = message_name(event.data)
                self._last[name.sender] = name.number


def site_spoolers(cluster: Cluster) -> dict[str, SiteSpooler]:
    """One for each site, by its name; not started."""
    root = cluster.directory / DIRECTORY
    return {site: SiteSpooler(cluster.url(f"{site}1"), root / site) for site in sorted(SITES)}
