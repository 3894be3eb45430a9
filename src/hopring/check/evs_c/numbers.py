"""Views and messages of clients by number, so that the checks of daemons can look at them."""

from collections.abc import Iterable
from typing import Final, Protocol

from hopring.check.evs.messages import Messages, number_messages
from hopring.check.trace import (
    ClientDelivered,
    ClientEvent,
    ClientSent,
    Delivered,
    GroupInstalled,
    GroupViewName,
    MessageId,
    Ord,
    Sent,
    ViewName,
)

NOWHERE: Final = ViewName(0, 0, 0)


class Events(Protocol):
    """Whoever has events."""

    @property
    def events(self) -> list[ClientEvent]:
        """In their order."""


def number_views(sessions: Iterable[Events]) -> dict[str, dict[GroupViewName, ViewName]]:
    """Views by group, as numbers that rise with the ids."""
    found: dict[str, set[GroupViewName]] = {}
    for session in sessions:
        for event in session.events:
            if isinstance(event, GroupInstalled):
                found.setdefault(event.group, set()).add(event.view)
    return {
        group: {view: ViewName(at, 0, 0) for at, view in enumerate(sorted(views), start=1)}
        for group, views in found.items()
    }


def view_texts(group: str, names: dict[GroupViewName, ViewName]) -> dict[ViewName, str]:
    """As short as they can be: `red 5.2`, and if the view was closing `red 5.-2>6`."""
    short = {view: short_view(view) for view in names}
    taken = list(short.values())
    return {
        names[view]: f"{group} {text if taken.count(text) == 1 else _long(view)}"
        for view, text in short.items()
    }


def short_view(view: GroupViewName) -> str:
    """As in `5.2`, or `5.-2>6`."""
    way = "".join([f">{one.counter}" for one in view.path])
    return f"{view.view.counter}.{'-' if view.path else ''}{view.step}{way}"


def _long(view: GroupViewName) -> str:
    way = "".join([f">{one.counter} of {one.representative} ({one.nonce:x})" for one in view.path])
    made = f"{view.view.counter} of {view.view.representative} ({view.view.nonce:x})"
    return f"{made}.{'-' if view.path else ''}{view.step}{way}"


def number_sent(sessions: Iterable[Events]) -> Messages:
    """All messages that were delivered; what never was has no stamp, and no place among them."""
    delivered: dict[MessageId, Delivered] = {}
    sent: list[ClientSent] = []
    for session in sessions:
        for event in session.events:
            if isinstance(event, ClientDelivered) and event.message not in delivered:
                parts = event.process, event.at_us, NOWHERE, event.message, event.service, event.ord
                delivered[event.message] = Delivered(*parts)
            elif isinstance(event, ClientSent):
                sent.append(event)
    sends = [sent_event(one, delivered[one.message].ord) for one in sent if one.message in delivered]
    return number_messages(sends, delivered.values())


def sent_event(event: ClientSent, ord: Ord) -> Sent:
    """The send in the words of daemons, with the stamp that it got."""
    return Sent(event.process, event.at_us, NOWHERE, event.message, event.service, ord, event.size)
