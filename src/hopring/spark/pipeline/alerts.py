"""Alerts: each violation of a property, and each unexplained gap, is one message to a live group. No pyspark.

A file in the directory of the pipeline, the *book*, has the digests of all alerts, and the batch that is being
sent. It is on disk before the batch is sent. So a pipeline that was killed sends the same batch again, under
the same number, and receivers drop the messages that they had.

Invariant   an alert is in at most one batch, and a batch never changes.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any, Final, Literal
from uuid import uuid4

import msgspec

from hopring.spark.audit.witness import AuditViolation
from hopring.spark.errors import ForeignInput, SparkError
from hopring.spark.sink.live import send_batch, sink_session
from hopring.spark.sink.options import write_options
from hopring.spool.encode import AppendMark

BOOK: Final = "alerts.json"
ALERTS_MAX: Final = 1_000
"""Alerts of one batch; the last one then says how many were left out."""

KNOWN_MAX: Final = 1_000_000
"""Digests in a book, 24 characters each; above it the oldest are forgotten, and may be sent again."""

TEXT_CHARS_MAX: Final = 4_096
APP: Final = "hop-alerts-"
_DIGEST_CHARS: Final = 24
_GAP_KEYS: Final = ("spool", "group", "kind", "view", "from_offset")
"""The columns that tell two gaps apart; the others change while a gap is filled or grows."""


class AlertTarget(msgspec.Struct, frozen=True):
    """The group that is told, and the daemons and credentials by which it is reached."""

    group: str
    url: str
    credentials: Mapping[str, str] = {}  # By the names of a sink's options.


class Alert(msgspec.Struct, frozen=True):
    """One thing that is wrong. Its facts identify it: the same facts are the same alert."""

    kind: Literal["violation", "gap", "more"]
    text: str
    facts: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """A short name for its facts."""
        text = json.dumps([self.kind, self.facts], sort_keys=True, default=str)
        return sha256(text.encode()).hexdigest()[:_DIGEST_CHARS]


class AlertBook(msgspec.Struct, frozen=True):
    """The alerts that were sent, and those that are being sent."""

    app: str  # Receivers know repeated batches by it.
    batch: int = 0  # The number of the next batch, or of the pending one.
    pending: tuple[str, ...] = ()  # Messages of a batch that may have been sent.
    known: tuple[str, ...] = ()  # Digests, the oldest first; those of the pending batch as well.


Read = Callable[[str], str | None]
Write = Callable[[str, str], object]


def of_violations(found: Iterable[AuditViolation]) -> list[Alert]:
    """An alert for each violation that an audit names."""
    return [
        Alert("violation", one.witness, {"run": one.run, "property": one.property, **one.facts})
        for one in found
    ]


def of_gaps(rows: Iterable[Mapping[str, Any]]) -> list[Alert]:
    """An alert for each unexplained gap among these rows of silver/gaps."""
    return [
        Alert("gap", gap_text(row), {key: row[key] for key in _GAP_KEYS})
        for row in rows
        if not row["explained"]
    ]


def gap_text(row: Mapping[str, Any]) -> str:
    """A gap as a sentence."""
    where = f"of view {row['view']}" if row["view"] else f"from offset {row['from_offset']}"
    others = f", which {' and '.join(row['others'])} have" if row["others"] else ""
    return f"{row['spool']} lacks {row['messages'] or 'some'} records of {row['group']} {where}{others}"


def read_book(text: str | None) -> AlertBook:
    """The book in a file, or a new one; ForeignInput if it is damaged."""
    if text is None:
        return AlertBook(f"{APP}{uuid4().hex}")
    try:
        return msgspec.json.decode(text, type=AlertBook)
    except msgspec.DecodeError as error:
        remedy = "remove it: all alerts of the next run are then sent again"
        raise ForeignInput(f"{BOOK}: {error}", remedy) from None


def noted(book: AlertBook, alerts: Iterable[Alert]) -> AlertBook:
    """The book with a batch of those alerts that it does not know; unchanged if it knows all of them."""
    assert not book.pending, "one batch at a time"
    known = set(book.known)
    new = [alert for alert in {alert.digest: alert for alert in alerts}.values() if alert.digest not in known]
    if not new:
        return book
    shown = new[:ALERTS_MAX]
    if len(new) > len(shown):
        left_out = len(new) - len(shown)
        shown.append(Alert("more", f"{left_out} more alerts were left out", {"left_out": left_out}))
    digests = (*book.known, *[alert.digest for alert in new])[-KNOWN_MAX:]
    return msgspec.structs.replace(book, pending=tuple(map(message_of, shown)), known=digests)


def message_of(alert: Alert) -> str:
    """The payload of an alert: a JSON object."""
    text = alert.text if len(alert.text) <= TEXT_CHARS_MAX else f"{alert.text[:TEXT_CHARS_MAX]} ..."
    return json.dumps({"alert": alert.kind, "text": text, "facts": alert.facts}, default=str)


def sent(book: AlertBook) -> AlertBook:
    """The book after its pending batch was delivered."""
    return msgspec.structs.replace(book, batch=book.batch + 1, pending=())


def raise_alerts(target: AlertTarget, read: Read, write: Write, alerts: Iterable[Alert]) -> int:
    """Sends the alerts that were not sent before, and returns their number.

    `read` and `write` are those of the pipeline's directory: a file is complete or absent, and on disk.
    SparkError if they cannot be sent; the next call sends them.
    """
    book = read_book(read(BOOK))
    count = 0
    if book.pending:  # Of a run that was killed.
        count += _send(target, book)
        book = sent(book)
        write(BOOK, msgspec.json.encode(book).decode())
    book = noted(book, alerts)
    if book.pending:
        write(BOOK, msgspec.json.encode(book).decode())
        count += _send(target, book)
        write(BOOK, msgspec.json.encode(sent(book)).decode())
    return count


def _send(target: AlertTarget, book: AlertBook) -> int:
    places = {"daemon": target.url, "group": target.group, "txnAppId": book.app, "txnVersion": str(book.batch)}
    options = write_options({**places, **target.credentials}, stream=False)
    rows = [(message.encode(), 0) for message in book.pending]
    try:
        with sink_session(options, book.app) as session:
            send_batch(session, options, target.group, rows, AppendMark(book.app, book.batch))
    except SparkError as error:
        raise SparkError(f"alerts to {target.group}: {error.problem}", error.remedy) from None
    return len(rows)
