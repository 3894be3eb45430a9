"""Planted bugs of files that travel with parcels of the long-haul service, and of its durable calls."""

from collections.abc import Callable
from typing import Any, Final

from hopring.haul.calls import DurableCalls
from hopring.haul.ids import ClusterId, ParcelId
from hopring.haul.link.frames import ParcelFrame, WideFile
from hopring.haul.managed_set import ManagedSet
from hopring.haul.order.events import Parcel, ParcelArrived
from hopring.haul.stored.bodies import StoreBodies
from hopring.haul.stored.keeping import BodiesWanted, MemberFiles, PieceWanted
from hopring.haul.stored.shelf import FileKey, FileShelf, FileUser
from hopring.sim.campaign.bugs.planting import Bug, wide_bug


def _arrived_at_once(park: Callable[..., None]) -> Any:
    del park

    def takes_the_message_for_the_file(
        self: ManagedSet, peer: ClusterId, frame: ParcelFrame, file: WideFile, now_us: int
    ) -> None:
        outputs = self.core.step(ParcelArrived(peer, frame.parcel, frame.descriptors), now_us)
        self._keep(frame.parcel.id, frame.body)
        self.parcels[frame.parcel.id] = frame.parcel
        self._need(frame.parcel.id, file, now_us)
        self._carry_out(outputs)

    return takes_the_message_for_the_file


def _always_fits(verified: Callable[..., bool]) -> Any:
    def believes_the_size(self: FileShelf, key: FileKey, *, fits: bool) -> bool:
        del fits
        return verified(self, key, fits=True)

    return believes_the_size


def _any_name(problem: Callable[..., str | None]) -> Any:
    del problem

    def takes_every_name(name: str) -> str | None:
        del name
        return None

    return takes_every_name


def _for_the_first(release: Callable[..., None]) -> Any:
    def drops_it_for_all(self: FileShelf, digest: bytes, user: FileUser) -> None:
        kept = self.files.get(digest)
        if kept is not None and user in kept.users:
            others = kept.users - {user}
            release(self, digest, user)
            if others:
                kept.users.clear()
                kept.offset, kept.whole = 0, False

    return drops_it_for_all


def _never_asks(ask: Callable[..., PieceWanted | None]) -> Any:
    def asks_nobody(self: MemberFiles, me: str, members: tuple[str, ...], now_us: int) -> PieceWanted | None:
        del members
        return ask(self, me, (), now_us)

    return asks_nobody


def _never_asks_for_bodies(ask: Callable[..., BodiesWanted | None]) -> Any:
    def asks_nobody(self: MemberFiles, me: str, members: tuple[str, ...], now_us: int) -> BodiesWanted | None:
        del members
        return ask(self, me, (), now_us)

    return asks_nobody


def _only_forgets(store: Callable[..., list[StoreBodies]]) -> Any:
    def leaves_nothing_behind(self: MemberFiles) -> list[StoreBodies]:
        store(self)
        self.bodies.there.clear()
        return []

    return leaves_nothing_behind


def _for_the_first_peer(acknowledge: Callable[..., None]) -> Any:
    def forgets_what_one_peer_has(self: ManagedSet, peer: ClusterId, number: int) -> None:
        frames = [one for one in self.channels[peer].waiting if one.number <= number]
        acknowledge(self, peer, number)
        parcels = [one.parcel.id for one in frames if one.parcel is not None]
        self.dropped += [one for one in parcels if one in self.kept and one not in self.bodies]

    return forgets_what_one_peer_has


def _made_again(made: Callable[..., int | None]) -> Any:
    del made

    def knows_no_call(self: DurableCalls, name: str) -> None:
        self.done(name)

    return knows_no_call


def _last_counts(answered: Callable[..., None]) -> Any:
    def takes_the_last(self: DurableCalls, parcel: Parcel) -> None:
        for call in self.by_name.values():
            if call.number == parcel.answers:
                call.answer = None
        answered(self, parcel)

    return takes_the_last


def _not_held(holds: Callable[..., bool]) -> Any:
    del holds

    def holds_nothing(self: DurableCalls, parcel: ParcelId) -> bool:
        del self, parcel
        return False

    return holds_nothing


BUGS: Final[tuple[Bug, ...]] = (
    wide_bug(
        "file-early",
        "long-haul 5.3: a message with a file is delivered when the file is there",
        "a message counts as arrived before its file is whole",
        ("hopring.haul.managed_set:ManagedSet._park", _arrived_at_once),
    ),
    wide_bug(
        "digest-unchecked",
        "property W13: a file that changes while it is taken in is refused",
        "a file counts as whole when its size fits",
        ("hopring.haul.stored.shelf:FileShelf.verified", _always_fits),
    ),
    wide_bug(
        "name-unchecked",
        "property W13: no name leaves the directory of its set",
        "files go wherever their senders want them",
        ("hopring.haul.application:name_problem", _any_name),
        ("hopring.haul.stored.names:name_problem", _any_name),
    ),
    wide_bug(
        "file-dropped-early",
        "property W7: a file is kept while a parcel needs it",
        "the first parcel that is done with a file takes it away from the others",
        ("hopring.haul.stored.shelf:FileShelf.release", _for_the_first),
    ),
    wide_bug(
        "lacking-unasked",
        "property W7: a member that got the state from others gets what belongs to it, too",
        "a member whose state came as a snapshot never asks for the files of that state",
        ("hopring.haul.stored.keeping:MemberFiles.ask", _never_asks),
        ("hopring.haul.stored.keeping:MemberFiles.ask_for_bodies", _never_asks_for_bodies),
    ),
    wide_bug(
        "snapshot-alone",
        "long-haul 4.1.1: what waits is on stable storage",
        "bodies are forgotten with the entries that a snapshot replaces, and are not stored",
        ("hopring.haul.stored.keeping:MemberFiles.store_bodies", _only_forgets),
    ),
    wide_bug(
        "spool-emptied-early",
        "property W7: a body is kept until all have it",
        "what is on the disk goes when the first peer has it, though others and the group wait for it",
        ("hopring.haul.managed_set:ManagedSet.acknowledge", _for_the_first_peer),
    ),
    wide_bug(
        "call-made-again",
        "property W17: a call is made once, whoever asks again by its name",
        "a caller that asks again after a crash makes another call",
        ("hopring.haul.calls:DurableCalls.made", _made_again),
    ),
    wide_bug(
        "last-answer-counts",
        "property W17: a call has one answer",
        "an answer that comes later takes the place of the first one",
        ("hopring.haul.calls:DurableCalls.answered", _last_counts),
    ),
    wide_bug(
        "answer-not-kept",
        "long-haul 2.2: the answer comes, though the caller ends meanwhile",
        "the body of an answer goes when all clusters have it, not when the caller does",
        ("hopring.haul.calls:DurableCalls.holds", _not_held),
    ),
)
