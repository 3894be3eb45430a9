"""Clusters with one member each, whose group, disk and connections a test moves by hand."""

from collections import deque

from hopring.blocks.log.events import (
    LogMessageShown,
    LogSignalShown,
    LogViewShown,
    RecordsSynced,
    SendToGroup,
    WriteRecords,
)
from hopring.blocks.log.member import LogSizes
from hopring.blocks.log.messages import Operation
from hopring.blocks.log.records import LogImage, recovered
from hopring.blocks.log.replica import Replica
from hopring.client.events import Member, View
from hopring.groups.names import GroupViewId
from hopring.haul.entries import EntryBody, WideEntry, encode_entry
from hopring.haul.ids import ClusterId, clusters_mask
from hopring.haul.link.frames import LinkFrame
from hopring.haul.link.links import LinkOptions
from hopring.haul.link.schedule import LinkSchedule
from hopring.haul.member import LOG_NAME, MemberOptions, MemberPlace, WideMember
from hopring.haul.member_events import (
    AnswerClient,
    ConnectionId,
    CopySeen,
    Dialed,
    DialPeer,
    EndConnection,
    FrameArrived,
    HandOver,
    MemberInput,
    MemberOutput,
    PeerConnected,
    RepresentativesChanged,
    SendFrame,
    SendStored,
)
from hopring.haul.stored.bodies import ForgetBodies, StoreBodies
from hopring.haul.stored.keeping import StoreContents
from hopring.ids import DaemonId, Incarnation, ViewId
from hopring.links.events import Tick


class OneMember:
    """A cluster with one member; its group and its disk do at once what they are asked, unless held."""

    def __init__(
        self,
        me: int,
        others: tuple[int, ...],
        dials: tuple[int, ...] = (),
        schedule: LinkSchedule | None = None,
        compact_entries: int | None = None,
    ) -> None:
        """With `compact_entries` it takes snapshots so often, and has files beside its log."""
        self.files: list[StoreBodies | ForgetBodies | WriteRecords] = []  # What goes to the disk, in order.
        self.stored: list[SendStored] = []
        self.me = ClusterId(me)
        self.now_us = 0
        self.disk_holds = False
        self.records: list[object] = []
        self.dialed: list[ClusterId] = []
        self.frames: deque[tuple[ConnectionId, LinkFrame]] = deque()
        self.ended: list[tuple[ConnectionId, str]] = []
        self.handed: list[HandOver] = []
        self.answers: list[AnswerClient] = []
        self._session = Member(f"d{me}", "wide", 1, 1)
        peers = clusters_mask([ClusterId(one) for one in others])
        place = MemberPlace(self.me, peers, "m", ("m",))
        schedules = {} if schedule is None else {ClusterId(one): schedule for one in others}
        options = LinkOptions("ims", bytes(32), clusters_mask([ClusterId(one) for one in dials]), schedules)
        replica = Replica(LOG_NAME, "m", ("m",), self._image())
        sizes = LogSizes(compact_entries or 10_000, keep=0)
        contents = None if compact_entries is None else StoreContents()
        of = place, replica, f"writer {me}", MemberOptions(links=options, sizes=sizes)
        self.core = WideMember(*of, contents)
        self._view = 0

    def _image(self) -> LogImage:
        return recovered([])

    # What happens to it.

    def view(self) -> None:
        """A view of the group, with this member alone."""
        self._view += 1
        view_id = GroupViewId(ViewId(self._view, DaemonId(0), Incarnation(0)), (), 0)
        one = (self._session,)
        self.step(LogViewShown(View(LOG_NAME, view_id, one, one, "network", None, (one,)), self._address))

    def signal(self) -> None:
        """The view is closing."""
        self.step(LogSignalShown())

    @property
    def _address(self) -> str:
        return self._session.private_group

    def request(self, client: str, number: int, body: EntryBody) -> None:
        """A client sends a request to the group."""
        operation = Operation(client, number, 0, encode_entry(WideEntry(self.now_us, body)))
        self.step(LogMessageShown(f"#{client}", operation))

    def sync(self) -> None:
        """The disk has what it was given."""
        self.disk_holds = False
        while self.records:
            self.records.pop(0)
            self.step(RecordsSynced())

    def after(self, delay_us: int) -> None:
        """Time passes."""
        self.now_us += delay_us
        self.step(Tick())

    def step(self, event: MemberInput) -> None:
        """Hands an event to the member, and carries out what it says."""
        for output in self.core.step(event, self.now_us):
            self._carry_out(output)

    def _carry_out(self, output: MemberOutput) -> None:
        match output:
            case SendToGroup(message):
                self.step(LogMessageShown(self._address, message))
            case StoreBodies() | ForgetBodies():
                self.files.append(output)
            case SendStored():
                self.stored.append(output)
            case WriteRecords(records):
                self.files.append(output)
                self.records.append(records)
                if not self.disk_holds:
                    self.sync()
            case DialPeer(peer):
                self.dialed.append(peer)
            case SendFrame(connection, frame):
                self.frames.append((connection, frame))
            case EndConnection(connection, reason):
                self.ended.append((connection, reason))
            case HandOver():
                self.handed.append(output)
            case AnswerClient():
                self.answers.append(output)

    # Its group, its connections.

    def present(self, group: str, *, present: bool = True) -> None:
        """A local group has members, or none."""
        self.step(RepresentativesChanged(group, present))

    def copies(self, *, present: bool = True) -> list[str]:
        """Delivers what was handed over; returns the bodies."""
        handed, self.handed = self.handed, []
        for one in handed:
            self.step(CopySeen(one.set, one.item.number, present))
        return [one.body.decode() for one in handed]

    def connect(self, other: "OneMember", connection: int = 1) -> None:
        """The peer that is dialled answers."""
        assert other.me in self.dialed, "it was dialled"
        self.dialed.remove(other.me)
        other.step(PeerConnected(ConnectionId(connection)))
        self.step(Dialed(other.me, ConnectionId(connection)))

    def arrive(self, frame: LinkFrame, connection: int = 1) -> None:
        """A frame of the peer."""
        self.step(FrameArrived(ConnectionId(connection), frame))


def exchange(one: OneMember, other: OneMember) -> list[str]:
    """Carries frames until none is on its way; returns their kinds."""
    kinds: list[str] = []
    while one.frames or other.frames:
        for source, to in ((one, other), (other, one)):
            while source.frames:
                connection, frame = source.frames.popleft()
                kinds.append(type(frame).__name__)
                to.arrive(frame, connection)
    return kinds
