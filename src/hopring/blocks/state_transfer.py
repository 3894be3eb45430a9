"""State transfer: the members of a group come to have the same state, at one place of its order.

Implements  RMP, state transfer at a view; the exchange of docs/views.md, with snapshots to those that need one.
Below       the events of one group of a session in their order, and messages from member to member.
Above       transfer_driver.py, which calls the program's provider; a replica of the simulator.
Invariants  of members with the same state one speaks, the speaker; its snapshot is its state at the place where
            the round began, and a member that takes it goes on with exactly the messages after that place. A
            member without state never speaks. Members in one view that have the same state know that of each
            other (`peers`), and agree on it, because it changes at places of the order alone.

A round begins at each view in which not all members are peers, and at the failure of a speaker. In it each
speaker claims its state to the group, and members without state say that they have none. When all members are
spoken for, all know the winners: the one state, or the best one, or all that are merged. Their speakers send
snapshots, in chunks and with a window, to those that need them. A member that has all it needs says so to the
group; at the place of that message it takes the state and is a peer. Merged states are taken by all at once, at
the last such place. Messages wait where the state is not known yet.
"""

from collections import deque
from dataclasses import dataclass, field
from hashlib import sha256

from hopring.blocks.snapshot import SIZES, IncomingSnapshot, OutgoingSnapshot, TransferSizes
from hopring.blocks.state_events import (
    NOWHERE,
    BeginAnew,
    BeginsHere,
    GiveEvent,
    GroupMarkShown,
    Input,
    MemberMarkArrived,
    NobodySpeaks,
    OperationShown,
    Output,
    PlaceKey,
    SendMark,
    SessionLost,
    SnapshotRefused,
    SnapshotTaken,
    SpeakerFailed,
    Standing,
    TakeSnapshot,
    TakeState,
    ViewShown,
)
from hopring.blocks.state_header import (
    ChunkMark,
    Claim,
    ClaimMark,
    DoneMark,
    EndMark,
    FailedMark,
    FoundMark,
    TakenMark,
    decode_claim,
    encode_claim,
)
from hopring.client.events import Member, Transition, View
from hopring.ids import Place


@dataclass(frozen=True, slots=True)
class Waiting:
    """Something that the program gets later, with its place if it has one."""

    item: object
    place: PlaceKey = NOWHERE


@dataclass(slots=True)
class Round:
    """An attempt to agree on the state of all members."""

    name: str
    number: int
    failed: dict[Member, str] = field(default_factory=dict)  # Speakers whose snapshot failed in this view.
    claims: dict[Member, Claim] = field(default_factory=dict)
    spoken_for: set[Member] = field(default_factory=set)
    winners: tuple[Member, ...] = ()  # Their speakers; empty until the decision.
    merging: bool = False
    open: bool = False  # Whether messages go on to the program, because its state stays.
    done: set[Member] = field(default_factory=set)
    told_done: bool = False  # Whether this member has said that it has all it needs.


@dataclass(slots=True)
class Transfer:
    """A snapshot on its way to one member."""

    snapshot: OutgoingSnapshot
    sent: int = 0
    taken: int = 0
    ended: bool = False


class StateTransfer:
    """One member of a group whose members have a state."""

    def __init__(self, merges: bool, sizes: TransferSizes = SIZES) -> None:
        self.standing = Standing.FRESH
        self.peers: set[Member] = set()  # Members with the same state, this one included.
        self.round: Round | None = None  # None while all members are peers.
        self.waiting: deque[Waiting] = deque()
        self._merges = merges
        self._sizes = sizes
        self._view: View | None = None
        self._members: tuple[Member, ...] = ()  # Sorted.
        self._me: Member | None = None
        self._holders: set[Member] = set()  # Those that have a state, or may have one, as far as known.
        self._place: PlaceKey = NOWHERE
        self._primary: PlaceKey = NOWHERE
        self._closing = False  # Whether the program had a signal since its last view.
        self._in_primary = False  # Whether that view was primary.
        self._kept = 0  # Waiting items before this one belong to a transfer of an earlier round.
        self._begun: View | None = None  # The view where the state that this member waits for is from.
        self._pending: tuple[str, str] | None = None
        self._snapshot: OutgoingSnapshot | None = None
        self._outgoing: dict[tuple[str, str], Transfer] = {}  # By receiver and round.
        self._incoming: dict[tuple[str, str], IncomingSnapshot] = {}  # By speaker and round.

    @property
    def ready(self) -> bool:
        """Whether the program has a state that counts."""
        return self.standing is Standing.LIVE

    @property
    def stuck(self) -> bool:
        """Whether nobody in the view has a state, although somebody had one elsewhere: see `BeginAnew`."""
        at = self.round
        return at is not None and self._all_spoken(at) and not at.winners

    def step(self, event: Input) -> list[Output]:
        """Handles an event; the outputs are carried out in their order."""
        match event:
            case OperationShown():
                return self._operation(event)
            case MemberMarkArrived():
                return self._member_mark(event)
            case GroupMarkShown():
                return self._group_mark(event)
            case ViewShown():
                return self._show(event.view, event.me)
            case SnapshotTaken():
                self._snapshot = OutgoingSnapshot(event.parts, self._sizes.chunk_bytes, event.promised_bytes)
                return self._snapshot_there()
            case SnapshotRefused():
                return self._speaker_failed(event.reason)
            case BeginAnew():
                return self._begin_anew()
            case SessionLost():
                return self._session_lost()

    # Messages of the program.

    def _operation(self, event: OperationShown) -> list[Output]:
        place = NOWHERE if event.place is None else place_key(event.place)
        if self._holding:
            self.waiting.append(Waiting(event.item, place))
            return []
        return [self._release(event.item, place, True)]

    @property
    def _holding(self) -> bool:
        return self.standing is not Standing.LIVE or (self.round is not None and not self.round.open)

    def _release(self, item: object, place: PlaceKey, settled: bool) -> GiveEvent:
        if isinstance(item, View):
            self._enter(item)
        elif isinstance(item, Transition):
            self._closing = True
        settled = settled and not self._closing
        self._place = max(self._place, place)
        if settled and self._in_primary:
            self._primary = max(self._primary, place)
        return GiveEvent(item, settled)

    def _enter(self, view: View) -> None:
        """The program is in this view from here on."""
        self._closing, self._in_primary = False, view.primary

    def _release_waiting(self, settled: bool) -> list[Output]:
        out: list[Output] = []
        while self.waiting:
            one = self.waiting.popleft()
            out.append(self._release(one.item, one.place, settled))
        self._kept = 0
        return out

    # Views and rounds.

    def _show(self, view: View, me: str) -> list[Output]:
        out: list[Output] = []
        own = next(one for one in view.members if one.private_group == me)
        self._note_losses(view)
        if self.standing >= Standing.FORMER:
            # Those who come along do the same with the same state, so that they stay peers.
            out.extend(self._release_waiting(False))
            self._pending = None
        elif self.round is not None:
            self._kept = len(self.waiting)
        together = set(view.together) if own == self._me else {own}
        self.peers = (self.peers & together) | {own}
        self._me, self._view, self._members = own, view, tuple(sorted(view.members))
        gone = [key for key in self._outgoing if key[0] not in {one.private_group for one in together}]
        for key in gone:
            del self._outgoing[key]
        if self._pending is not None and self._pending[0] not in {one.private_group for one in together}:
            self._pending = None
        if self.standing >= Standing.FORMER:
            out.append(self._release(view, NOWHERE, True))
        else:
            self.waiting.append(Waiting(view))
        if self.standing is Standing.LIVE and self.peers == set(self._members):
            self._settle()
            return out
        return out + self._begin_round(0, {})

    def _note_losses(self, view: View) -> None:
        """Remembers who may have a state elsewhere: nobody that left or disconnected."""
        gone = set(self._members) - set(view.members)
        if view.cause in ("leave", "disconnect"):
            self._holders -= gone
        elif self.round is not None:
            self._holders |= gone - self.round.spoken_for

    def _settle(self) -> None:
        """All members are peers: no round is needed."""
        self.round = None
        self._snapshot = None
        self._outgoing.clear()
        self._incoming.clear()
        self._note_primary()

    def _note_primary(self) -> None:
        assert self._view is not None, "there is a view"
        if self._view.primary:
            self._primary = max(self._primary, (*self._view.id.view, 0, 0))

    def _begin_round(self, number: int, failed: dict[Member, str]) -> list[Output]:
        assert self._view is not None, "there is a view"
        assert self._me is not None, "it is in the view"
        self.round = at = Round(round_name(self._view, number), number, failed)
        self._snapshot = None
        known = {at.name} if self._pending is None else {at.name, self._pending[1]}
        self._incoming = {key: one for key, one in self._incoming.items() if key[1] in known}
        if self.standing < Standing.FORMER:
            self.standing = Standing.AWARE if self._holders else Standing.FRESH
            return [self._claim(at, {self._me})]
        if self._speaker(at) != self._me:
            return []
        take: list[Output] = [] if self._me in failed else [TakeSnapshot(at.name)]
        return [*take, self._claim(at, self.peers)]

    def _speaker(self, at: Round) -> Member:
        able = self.peers - at.failed.keys()
        return min(able or self.peers)

    def _claim(self, at: Round, of: set[Member]) -> SendMark:
        indexes = tuple([index for index, one in enumerate(self._members) if one in of])
        parts = indexes, int(self.standing), self._primary, self._place, self._merges, self._pending
        return SendMark("", ClaimMark(at.name), encode_claim(Claim(*parts)))

    def _session_lost(self) -> list[Output]:
        out: list[Output] = []
        if self.standing >= Standing.FORMER:
            out = self._release_waiting(False)
            self.standing = Standing.FORMER
        self.waiting.clear()
        self._kept = 0
        self.round = self._me = self._pending = self._snapshot = None
        self._members = ()
        self.peers.clear()
        self._outgoing.clear()
        self._incoming.clear()
        return out

    # Marks in the order.

    def _group_mark(self, event: GroupMarkShown) -> list[Output]:
        at = self.round
        sender = next((one for one in self._members if one.private_group == event.sender), None)
        if at is None or sender is None or event.mark.round != at.name:
            return []  # Of an earlier view: it has no meaning any more.
        match event.mark:
            case ClaimMark():
                claim = decode_claim(event.data)
                return [] if claim is None else self._claimed(at, sender, claim)
            case DoneMark():
                return self._done(at, sender)
            case FailedMark():
                return self._failed(at, sender, event.data)
            case FoundMark():
                return self._founded(at, sender)

    def _claimed(self, at: Round, sender: Member, claim: Claim) -> list[Output]:
        count = len(self._members)
        if at.winners or sender in at.claims or any(not 0 <= index < count for index in claim.of):
            return []
        of = {self._members[index] for index in claim.of}
        at.claims[sender] = claim
        at.spoken_for |= of
        if claim.standing >= Standing.FORMER:
            self._holders |= of
        if self._all_spoken(at):
            return self._decide(at)
        others = at.spoken_for >= set(self._members) - self.peers
        if self.standing is Standing.LIVE and others and not self._other_states(at):
            # Whatever this member's own speaker says, its state stays.
            at.open = True
            return self._release_waiting(True)
        return []

    def _all_spoken(self, at: Round) -> bool:
        return at.spoken_for >= set(self._members)

    def _other_states(self, at: Round) -> bool:
        return any(
            claim.standing >= Standing.FORMER for one, claim in at.claims.items() if one not in self.peers
        )

    def _decide(self, at: Round) -> list[Output]:
        """All members are spoken for: who has the state that counts?"""
        states = winning_states(at)
        if not states:
            if any(claim.standing is Standing.AWARE.value for claim in at.claims.values()):
                return []  # The state is elsewhere.
            return self._all_begin(at)
        at.merging = len(states) > 1 and all(claim.merges for claim in at.claims.values())
        at.winners = tuple(sorted(states)) if at.merging else (max(states, key=lambda one: rank(at, one)),)
        if not at.merging:
            return self._one_wins(at, at.winners[0])
        self._pending = None
        self._drop_earlier()
        self._begun = self._view
        self._outgoing.clear()
        out = self._start_transfers(at, set(self._members) - {self._me} if self._me else set())
        return out + self._look_whether_done()

    def _all_begin(self, at: Round) -> list[Output]:
        assert self._view is not None, "there is a view"
        self._drop_earlier()
        self.standing = Standing.LIVE
        self.peers = set(self._members)
        self._holders = set(self._members)
        self.waiting.popleft()  # The view: it is in the event.
        self._enter(self._view)
        begins = BeginsHere(self._view)
        out = self._release_waiting(True)
        at.open = True
        self._settle()
        return [begins, *out]

    def _one_wins(self, at: Round, winner: Member) -> list[Output]:
        of = self._of(at, winner)
        needs = set(self._members) - of
        going_on = {one for one in needs if self._goes_on(at, one, of)}
        names = {(one.private_group, pending[1]) for one in going_on if (pending := self._pending_of(at, one))}
        self._outgoing = {key: one for key, one in self._outgoing.items() if key in names}
        if self._me in of:
            self.standing = Standing.LIVE
            self.peers = of
            at.open = True
            self._note_primary()
            return self._release_waiting(True) + self._start_transfers(at, needs - going_on)
        if at.failed and winner in at.failed:
            reasons = [(one.private_group, why) for one, why in sorted(at.failed.items())]
            return [NobodySpeaks(tuple(reasons))]
        if self._me not in going_on:
            self._pending = (winner.private_group, at.name)
            self._begun = self._view
            self._drop_earlier()
        return self._look_whether_done()

    def _goes_on(self, at: Round, one: Member, of: set[Member]) -> bool:
        """Whether a transfer to this member that began in an earlier round stays valid."""
        pending = self._pending_of(at, one)
        return pending is not None and pending[0] in {holder.private_group for holder in of}

    def _pending_of(self, at: Round, one: Member) -> tuple[str, str] | None:
        claim = at.claims.get(one)
        return None if claim is None else claim.pending

    def _of(self, at: Round, speaker: Member) -> set[Member]:
        return {self._members[index] for index in at.claims[speaker].of}

    def _drop_earlier(self) -> None:
        """Messages before the round are in the snapshot that comes."""
        if self.standing < Standing.FORMER:
            for _ in range(self._kept):
                self.waiting.popleft()
        self._kept = 0

    def _done(self, at: Round, sender: Member) -> list[Output]:
        if not at.winners:
            return []
        at.done.add(sender)
        self._holders.add(sender)
        if at.merging:
            return self._take_states(at) if at.done >= set(self._members) else []
        same = self._of(at, at.winners[0]) | at.done
        if sender == self._me:
            return self._take_states(at)
        if self._me in same:
            self.peers = same
        else:
            self.peers.discard(sender)
        return self._look_whether_all_are_peers()

    def _look_whether_all_are_peers(self) -> list[Output]:
        if self.standing is Standing.LIVE and self.peers == set(self._members):
            self._settle()
        return []

    def _take_states(self, at: Round) -> list[Output]:
        assert self._begun is not None, "the decision said where the state is from"
        keys = self._sources(at)
        states = tuple([self._incoming[key].data() for key in keys])
        claims = [at.claims[one] for one in at.winners]
        had_state = self.standing >= Standing.FORMER
        self.standing = Standing.LIVE
        self.peers = set(self._members) if at.merging else self._of(at, at.winners[0]) | at.done
        self._place = max(claim.place for claim in claims)
        self._primary = max(claim.primary for claim in claims)
        self._pending = None
        at.open = True
        if not had_state:
            self.waiting.popleft()  # The view where the state is from: it is in the event.
            self._enter(self._begun)
        take = TakeState(states, self._begun, tuple(keys), at.merging)
        out: list[Output] = [take, *self._release_waiting(True)]
        self._note_primary()
        self._look_whether_all_are_peers()
        return out

    def _failed(self, at: Round, sender: Member, data: bytes) -> list[Output]:
        failed = at.failed | {sender: data.decode(errors="replace")}
        out: list[Output] = []
        if self.standing >= Standing.FORMER:
            out = self._release_waiting(False)
            self._pending = None
        else:
            self._kept = len(self.waiting)
            assert self._view is not None, "there is a view"
            self.waiting.append(Waiting(self._view))
        if self._pending is not None and self._pending[0] == sender.private_group:
            self._pending = None
        return out + self._begin_round(at.number + 1, failed)

    def _begin_anew(self) -> list[Output]:
        return [SendMark("", FoundMark(self.round.name))] if self.round is not None and self.stuck else []

    def _founded(self, at: Round, sender: Member) -> list[Output]:
        if not self.stuck:
            return []
        self._kept = len(self.waiting)
        assert self._view is not None, "there is a view"
        out: list[Output] = []
        if sender == self._me:
            self.standing = Standing.LIVE
            self.waiting.clear()
            self._kept = 0
            out = [BeginsHere(self._view)]
        else:
            self.waiting.append(Waiting(self._view))
        return out + self._begin_round(at.number + 1, {})

    # Snapshots.

    def _sources(self, at: Round) -> list[tuple[str, str]]:
        """The transfers that this member needs, by speaker and round."""
        if at.merging:
            return [(one.private_group, at.name) for one in at.winners]
        return [] if self._pending is None else [self._pending]

    def _start_transfers(self, at: Round, needs: set[Member]) -> list[Output]:
        if self._me not in at.winners or self._snapshot is None:
            return []
        for one in sorted(needs):
            self._outgoing[one.private_group, at.name] = Transfer(self._snapshot)
        if at.merging:
            return self._keep_own(at) + self._send_chunks()
        return self._send_chunks()

    def _keep_own(self, at: Round) -> list[Output]:
        """In a merge a speaker takes its own snapshot, too."""
        snapshot, own = self._snapshot, IncomingSnapshot()
        assert snapshot is not None, "it is a speaker"
        assert self._me is not None, "it is in the view"
        try:
            index = 0
            while snapshot.has(index):
                own.add(index, snapshot.chunks[index])
                index += 1
        except Exception as error:  # Whatever the provider raises.
            return self._speaker_failed(failure(error))
        own.finish(snapshot.end(at.name))
        self._incoming[self._me.private_group, at.name] = own
        return []

    def _snapshot_there(self) -> list[Output]:
        at = self.round
        if at is None or self._me not in at.winners:
            return []
        # The decision was quicker than the provider.
        needs = set(self._members) - ({self._me} if at.merging else self.peers)
        return self._start_transfers(at, needs) + self._look_whether_done()

    def _send_chunks(self) -> list[Output]:
        out: list[Output] = []
        for (to, name), transfer in self._outgoing.items():
            try:
                out.extend(self._send_some(to, name, transfer))
            except Exception as error:  # Whatever the provider raises.
                return out + self._speaker_failed(failure(error))
        return out

    def _send_some(self, to: str, name: str, transfer: Transfer) -> list[Output]:
        out: list[Output] = []
        snapshot = transfer.snapshot
        while not transfer.ended and transfer.sent - transfer.taken < self._sizes.window_chunks:
            if snapshot.has(transfer.sent):
                out.append(SendMark(to, ChunkMark(name, transfer.sent), snapshot.chunks[transfer.sent]))
                transfer.sent += 1
            else:
                transfer.ended = True
                out.append(SendMark(to, snapshot.end(name)))
        return out

    def _speaker_failed(self, reason: str) -> list[Output]:
        """Tells all, so that another one speaks, and the program."""
        at = self.round
        self._snapshot = None
        self._outgoing.clear()
        tell = [] if at is None else [SendMark("", FailedMark(at.name), reason.encode())]
        return [*tell, SpeakerFailed(reason)]

    def _member_mark(self, event: MemberMarkArrived) -> list[Output]:
        key = (event.sender, event.mark.round)
        match event.mark:
            case TakenMark(_, chunks):
                transfer = self._outgoing.get(key)
                if transfer is None or not transfer.taken <= chunks <= transfer.sent:
                    return []
                transfer.taken = chunks
                return self._send_chunks()
            case ChunkMark(name, index):
                snapshot = self._incoming.setdefault(key, IncomingSnapshot())
                if snapshot.add(index, event.data) and (index + 1) % self._sizes.receipt_chunks == 0:
                    return [SendMark(event.sender, TakenMark(name, index + 1))]
                return []
            case EndMark():
                if not self._incoming.setdefault(key, IncomingSnapshot()).finish(event.mark):
                    return [NobodySpeaks(((event.sender, "what arrived is not what it sent"),))]
                return self._look_whether_done()

    def _look_whether_done(self) -> list[Output]:
        """Says so, once, when all that this member needs is there."""
        at = self.round
        if at is None or not at.winners or at.told_done:
            return []
        sources = self._sources(at)
        whole = [key in self._incoming and self._incoming[key].whole for key in sources]
        if not sources or not all(whole):
            return []
        at.told_done = True
        return [SendMark("", DoneMark(at.name))]


def winning_states(at: Round) -> list[Member]:
    """The speakers whose states may count, by their claims."""
    having = [one for one, claim in at.claims.items() if claim.standing >= Standing.FORMER]
    able = [one for one in having if one not in at.failed] or having
    live = [one for one in able if at.claims[one].standing == Standing.LIVE]
    if not live:
        # Of earlier sessions' states one is enough: they are not from different sides, but of different age.
        return [max(able, key=lambda one: rank(at, one))] if able else []
    last = max(at.claims[one].primary for one in live)
    return live + [one for one in able if one not in live and at.claims[one].primary > last]


def rank(at: Round, one: Member) -> tuple[PlaceKey, int, PlaceKey, Member]:
    """The order of states: that of the primary side, of living members, with the most messages."""
    claim = at.claims[one]
    return claim.primary, claim.standing, claim.place, one


def place_key(place: Place) -> PlaceKey:
    """A place as numbers that are compared from left to right, also between views."""
    return (*place.view, place.lts, place.site)


def round_name(view: View, number: int) -> str:
    """The name of an attempt in a view."""
    numbers = [*view.id.view, *[part for one in view.id.path for part in one], view.id.step]
    return f"{sha256(' '.join(map(str, numbers)).encode()).hexdigest()[:16]}-{number}"


def failure(error: Exception) -> str:
    """The text of a provider's error."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
