"""The local groups of sets, as a member sees them: whether somebody is there, and its own copies of items.

Implements  handing over counts if the forwarder's own copy was delivered in a view with a member of the group.
Invariants  other members of the service are no members of a local group. Behind the signal of a view only those
            count who are still together with this process.
"""

from collections.abc import Iterable

from hopring.client.events import Member, Message, Transition, View
from hopring.haul.member_events import CopySeen, RepresentativesChanged
from hopring.wide.messages import SERVICE_SESSION, decode_item


class LocalGroups:
    """What one member knows of the groups that it hands items to."""

    def __init__(self) -> None:
        self._present: dict[str, bool] = {}

    def restart(self) -> list[RepresentativesChanged]:
        """The session is gone: nobody is known to be anywhere until the next views."""
        lost = [RepresentativesChanged(name, False) for name, present in self._present.items() if present]
        self._present.clear()
        return lost

    def take(self, event: View | Transition) -> RepresentativesChanged | None:
        """A view of a group, or its signal."""
        members = event.members
        present = has_representative(members)
        if self._present.get(event.group, False) == present:
            return None
        self._present[event.group] = present
        return RepresentativesChanged(event.group, present)

    def seen(self, group: str, message: Message) -> CopySeen | None:
        """A message of this process in a group; None if it is no item."""
        item = decode_item(message.data)
        if item is None:
            return None
        return CopySeen(item.set, item.number, self._present.get(group, False))


def has_representative(members: Iterable[Member]) -> bool:
    """Whether a program is among the members, and not only members of the service."""
    return any(not one.name.startswith(SERVICE_SESSION) for one in members)
