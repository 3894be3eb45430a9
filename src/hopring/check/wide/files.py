"""W13: files arrive whole and equal, are visible only then, and a source goes only after that."""

from posixpath import normpath
from typing import Final

from hopring.check.properties.property import Verdict, broken, holds
from hopring.check.wide.history import (
    WideFileSeen,
    WideFileSent,
    WideHistory,
    WideLogged,
    WideSeen,
    WideSourceGone,
)
from hopring.haul.ids import ClusterId, ParcelId, clusters_in
from hopring.haul.stored.names import directory_of

FILES: Final = "W13 files are whole, equal, in their place, and a source goes only after that"


def judge_files(history: WideHistory) -> Verdict:
    """W13: what is read is what was sent, and all destinations have it before its source goes."""
    sent = {event.message: event for event in history.of_kind(WideFileSent)}
    witness = _first_wrong(history, sent) or _first_unseen(history, sent) or _first_gone(history, sent)
    return holds(FILES) if witness is None else broken(FILES, witness)


def _first_wrong(history: WideHistory, sent: dict[str, WideFileSent]) -> str | None:
    for seen in history.of_kind(WideFileSeen):
        file = sent.get(seen.message)
        if file is None or file.set != seen.set:
            return f"{seen.client} gets a file with {seen.message}, which was sent without"
        directory = directory_of(seen.set) + "/"
        if not normpath(seen.path).startswith(directory):
            return f"{seen.client} gets the file of {seen.message} at {seen.path}, outside of {directory}"
        if file.name and normpath(seen.path) != directory + file.name:
            return f"{seen.client} gets the file of {seen.message} at {seen.path}, not at {file.name}"
        # A later file may have taken a place that senders have named.
        same = {one.digest for one in sent.values() if one.name == file.name and one.set == file.set}
        if seen.digest not in (same if file.name else {file.digest}):
            return f"{seen.client} reads something else than was sent with {seen.message} at {seen.path}"
    return None


def _first_unseen(history: WideHistory, sent: dict[str, WideFileSent]) -> str | None:
    with_file = {(one.client, one.message) for one in history.of_kind(WideFileSeen)}
    for seen in history.of_kind(WideSeen):
        if seen.message in sent and (seen.client, seen.message) not in with_file:
            return f"{seen.client} gets {seen.message} without its file"
    return None


def _first_gone(history: WideHistory, sent: dict[str, WideFileSent]) -> str | None:
    """A source that goes too early, or never, although its group was to be told."""
    had: set[tuple[ClusterId, str, ParcelId]] = set()
    gone: set[str] = set()
    parcels = {message: key for key, message in history.parcels.items()}
    for event in history.events:
        if isinstance(event, WideLogged):
            had.add((event.cluster, event.set, event.id))
        elif isinstance(event, WideSourceGone):
            gone.add(event.message)
            name, parcel = parcels.get(event.message, ("", None))
            for one in clusters_in(history.sent[event.message].destinations):
                if parcel is None or (one, name, parcel) not in had:
                    return f"the source of {event.message} is deleted, and cluster {one} has not got it"
    for message in sent:
        if message in history.accepted and history.sent[message].notify and message not in gone:
            return f"the source of {message} is never deleted"
    return None
