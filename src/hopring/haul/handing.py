"""Hands the items of sets over to their local groups: the forwarder of each set.

Implements  Makpangou and Birman, 4.1.1 and 5.1, with one forwarder for each set: by the manager of each
            connection, as in the paper, two parcels that came by two connections could change places.
Below       the local groups of the cluster, in which this process sees its own copies.
Above       the member.
Invariants  items go in the order of their delivery numbers. One counts as handed over if its copy was delivered
            in a view with a member of the group, and all before it count.
"""

from dataclasses import dataclass
from typing import Final

from hopring.haul.application import ApplicationManager
from hopring.haul.entries import HandedOver
from hopring.haul.managed_set import LineItem, ManagedSet
from hopring.haul.member_events import HandOver, PlaceFile
from hopring.haul.stored.keeping import MemberFiles
from hopring.haul.stored.names import directory_of
from hopring.haul.stored.shelf import FileKey

HANDED_MAX: Final = 100
"""Items of a set that are on their way to the group."""


@dataclass(slots=True)
class SetHanding:
    """How far the handing over of one set has come in this process."""

    at: int  # The last item that was multicast.
    seen: int  # All copies up to here were delivered in views with a member.
    rewinds: int  # Of the set, when this began.


class Handing:
    """What one member hands over."""

    def __init__(self, name: str, app: ApplicationManager, keeping: MemberFiles) -> None:
        self._keeping = keeping
        self._name = name
        self._app = app
        self._sets: dict[str, SetHanding] = {}
        self.present: set[str] = set()  # Local groups that have members.

    def restart(self) -> None:
        """What is on its way may be lost: all that is not handed over goes again."""
        self._sets.clear()

    def changed(self, group: str, *, present: bool) -> None:
        """A local group has members, or none any more."""
        (self.present.add if present else self.present.discard)(group)

    def seen(self, name: str, number: int, *, present: bool) -> None:
        """The own copy of an item was delivered."""
        one = self._sets.get(name)
        if one is None:
            return
        if not present:
            del self._sets[name]  # It goes again, and all behind it.
        elif number == one.seen + 1:
            one.seen = number

    def due(self) -> list[HandOver | PlaceFile]:
        """The items that go now, each behind its file."""
        out: list[HandOver | PlaceFile] = []
        for managed in self._app.sets.values():
            if self._app.forwarders.get(managed.name) != self._name:
                self._sets.pop(managed.name, None)
                continue
            if not managed.group or managed.group not in self.present:
                continue
            one = self._sets.get(managed.name)
            if one is None or one.rewinds != managed.rewinds:
                one = SetHanding(managed.handed, managed.handed, managed.rewinds)
                self._sets[managed.name] = one
            last = min(one.seen + HANDED_MAX, managed.delivered)
            for item in managed.items(one.at, last):
                place = self._place(managed.name, item)
                if place is None or not self._has_body(managed, item):
                    break  # This member does not have it yet: another one gives it.
                out += place
                out.append(self._hand(managed, item))
                one.at = item.number
            else:
                one.at = max(one.at, last)
        return out

    def _has_body(self, managed: ManagedSet, item: LineItem) -> bool:
        return item.parcel is None or self._keeping.has_body(managed.name, item.parcel.id)

    @staticmethod
    def _hand(managed: ManagedSet, item: LineItem) -> HandOver:
        parcel = item.parcel
        body = b"" if parcel is None else managed.bodies.get(parcel.id)
        of = managed.name, managed.group, item
        if parcel is None or body is not None:
            return HandOver(*of, body or b"", managed.rewinds)
        return HandOver(*of, b"", managed.rewinds, (managed.name, parcel.id))

    def _place(self, name: str, item: LineItem) -> list[PlaceFile] | None:
        """How the file of an item comes to its place; None if it is not here."""
        if item.parcel is None or item.file is None:
            return []
        kept = self._app.shelf.files[item.file.digest]
        key = FileKey(item.file.digest, kept.attempt)
        if self._keeping.size_of(key) < kept.size_bytes:
            return None
        return [PlaceFile(key, directory_of(name), item.file.place)]

    def to_note(self) -> list[HandedOver]:
        """What groups have got, where it is more than the log says."""
        return [
            HandedOver(name, one.seen, one.rewinds)
            for name, one in self._sets.items()
            if one.seen > self._app.sets[name].handed and one.rewinds == self._app.sets[name].rewinds
        ]
