"""A replay whose spool is elsewhere: a spooler answers requests for its pages (spool/pages.py).

Pages come by a session of their own. By that of the program they would wait behind its live events, which wait
for the replay. The next page is asked for while the last one is being taken.
"""

from collections import deque
from typing import Final, Protocol

from hopring.client.errors import MissingReplies, NoResponders
from hopring.client.events import Event, View
from hopring.client.receiving.replay import Replay, SpoolBehind, event_of
from hopring.ids import Place
from hopring.spool.pages import (
    REPLAY_SUFFIX,
    PageRequest,
    SpoolPage,
    decode_page,
    decode_record,
    encode_request,
)

AHEAD_EVENTS: Final = 500
"""With fewer events than this the next page is asked for."""


class PendingPage(Protocol):
    """A request for a page."""

    @property
    def over(self) -> bool:
        """Whether the reply is here, or an error."""

    def take(self) -> bytes:
        """Returns the data of the reply; raises the error of the request."""


class PageFetcher(Protocol):
    """The session that asks spoolers."""

    def fetch(self, group: str, data: bytes) -> PendingPage:
        """Sends a request to the servers of a group."""

    def close(self) -> None:
        """Ends the session; nothing else is asked for."""


class RemoteReplay(Replay):
    """The part of a spool elsewhere that precedes a group's live events."""

    def __init__(self, group: str, since: int | Place, fetcher: PageFetcher) -> None:
        """Asks for the first page; `has_news` tells when it is here."""
        self.group = group
        self.done = False
        self.upto = None
        self.marks = {}
        self._events: deque[tuple[Event, int]] = deque()
        self._fetcher = fetcher
        self._servers = group + REPLAY_SUFFIX
        self._since = since
        self._spool = ""
        self._at = -1  # The offset of the next record to ask for; unknown before the first page.
        self._piece = b""
        self._marks: dict[str, int] | None = None
        self._pending: PendingPage | None = None
        self._ask()

    @property
    def begun(self) -> bool:
        """Whether a spooler has answered; raises its error if it cannot serve this replay."""
        self._take_page()
        return self._at >= 0

    def has_news(self) -> bool:
        """Whether `next` has something to do."""
        return self._pending is not None and self._pending.over

    def next(self) -> Event | None:
        """The next event, or None if there is none now; `done` tells whether that is the end."""
        assert self.upto is not None, "the live part begins somewhere"
        self._take_page()
        event, offset = self._events[0] if self._events else (None, 0)
        if isinstance(event, View) and event.id == self.upto:
            self._end(offset)
            return None
        if len(self._events) < AHEAD_EVENTS and self._pending is None:
            self._ask()
        if event is not None:
            self._events.popleft()
        return event

    def _end(self, offset: int) -> None:
        """The live part begins at this offset: asks for the batches before it, and ends when it has them."""
        if self._marks is not None:
            self.done, self.marks = True, self._marks
        elif self._pending is None:
            self._pending = self._fetch(PageRequest(self._spool, offset, marks=True))

    def behind(self) -> SpoolBehind:
        """The error for a spool that does not grow for too long, or whose spooler is gone."""
        return SpoolBehind(self._servers, self._at)

    def close(self) -> None:
        """Asks for nothing else, and ends the session that did."""
        self._fetcher.close()

    def _ask(self) -> None:
        if self._at >= 0:
            self._pending = self._fetch(PageRequest(self._spool, self._at, piece_at=len(self._piece)))
        elif isinstance(self._since, int):
            self._pending = self._fetch(PageRequest(since=self._since))
        else:
            self._pending = self._fetch(PageRequest(place=self._since))

    def _fetch(self, request: PageRequest) -> PendingPage:
        return self._fetcher.fetch(self._servers, encode_request(request))

    def _take_page(self) -> None:
        pending = self._pending
        if pending is None or not pending.over:
            return
        self._pending = None
        try:
            page = decode_page(pending.take())
        except (NoResponders, MissingReplies):
            if self._at < 0:
                raise  # No spooler at all: the join fails.
            return  # It may come back; the calls ask again, until it is behind for too long.
        self._spool = page.spool
        if page.marks is not None:
            self._marks = page.marks
        elif page.first == self._at or self._at < 0:
            self._take_records(page)

    def _take_records(self, page: SpoolPage) -> None:
        self._at = page.first
        records = page.records
        if page.piece_end:
            self._piece += page.piece
            if len(self._piece) < page.piece_end:
                return
            records, self._piece = (decode_record(self._piece),), b""
        for record in records:
            self._events.append((event_of(record, self.group), record.offset))
        self._at += len(records)
