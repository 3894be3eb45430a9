"""One daemon's groups, fed by hand: daemons 0 and 1 of site 0, daemon 2 of site 1."""

from hopring.engine import Delivered, Installed, PrimaryBasis, SubmitMessage, TransitionalSignal
from hopring.groups.events import Connect, DeliverBundle, JoinGroup, Output, Send, ShowSignal, ShowView
from hopring.groups.groups import Groups, GroupsOptions
from hopring.groups.messages import GroupMessage, GroupsPart, encode_group_message, service_of
from hopring.groups.names import GroupMember
from hopring.groups.payloads import append_sender
from hopring.ids import DaemonId, GroupName, Incarnation, Process, SiteId, ViewId
from hopring.ordering.entry import DAEMON_SESSION, OrderedMessage, Position
from hopring.services import Service
from hopring.wire.bundle import BundleKey, encode_bundle

ME = Process(DaemonId(0), Incarnation(10))
NEAR = Process(DaemonId(1), Incarnation(11))
FAR = Process(DaemonId(2), Incarnation(12))
ALL = (ME, NEAR, FAR)
SITE_OF = {DaemonId(0): SiteId(0), DaemonId(1): SiteId(0), DaemonId(2): SiteId(1)}
RED, BLUE = GroupName("red"), GroupName("blue")
OPTIONS = GroupsOptions(linger_us=100, session_queue_bytes_max=2_000)


def view_id(counter: int) -> ViewId:
    return ViewId(counter, DaemonId(0), Incarnation(10))


class FedGroups:
    """A daemon's groups with literal times; submitted messages are kept."""

    def __init__(self, *members: Process, options: GroupsOptions = OPTIONS) -> None:
        """Starts in view 2 with these members, if there are any, after an exchange of empty GROUPS."""
        self.groups = Groups(ME, SITE_OF, ["d0", "d1", "d2"], options)
        self.at = 0
        self.view = view_id(1)
        self.step(Installed(self.view, (ME,), (ME,), "start"))
        if members:
            self.move((ME,), members, 2)
            self.exchange(*members)

    def step(self, event: object, now_us: int = 0) -> list[Output]:
        return self.groups.step(event, now_us)  # type: ignore[arg-type]

    def taken(self) -> list[SubmitMessage]:
        out: list[SubmitMessage] = []
        while (submit := self.groups.next_submission(queue_open=True)) is not None:
            out.append(submit)
        return out

    def deliver(
        self, sender: Process, session: int, group_message: GroupMessage, now_us: int = 0
    ) -> list[Output]:
        message = OrderedMessage(
            service_of(group_message), sender.daemon, session, encode_group_message(group_message)
        )
        self.at += 1
        return self.step(Delivered(self.view, message, sender, Position(self.at, 0)), now_us)

    def delivered(self, sender: Process, submits: list[SubmitMessage]) -> list[Output]:
        """Delivers the submitted messages, in order."""
        out: list[Output] = []
        for submit in submits:
            self.at += 1
            message = OrderedMessage(submit.service, sender.daemon, submit.session, submit.payload)
            out.extend(self.step(Delivered(self.view, message, sender, Position(self.at, 0))))
        return out

    def message(
        self,
        sender: Process,
        service: Service,
        *groups: str,
        session: int = 9,
        discard: bool = False,
        at: int = 0,
        name: str = "sender",
    ) -> list[Output]:
        """Delivers a client's message from any daemon."""
        self.at += 1
        names = tuple([GroupName(name) for name in groups])
        key = BundleKey(sender.daemon, session, service, names, discard)
        payload = append_sender(encode_bundle(key, [b"body"], [7], [0]), name)
        message = OrderedMessage(service, sender.daemon, session, payload)
        return self.step(Delivered(self.view, message, sender, Position(at or self.at, 0)))

    def signal(self, together: tuple[Process, ...], counter: int, primary: bool = False) -> list[Output]:
        return self.step(TransitionalSignal(self.view, together, view_id(counter), primary))

    def installed(
        self,
        together: tuple[Process, ...],
        members: tuple[Process, ...],
        counter: int,
        basis: PrimaryBasis = PrimaryBasis.NONE,
    ) -> list[Output]:
        self.view = view_id(counter)
        return self.step(Installed(self.view, members, together, "test", False, basis))

    def move(self, together: tuple[Process, ...], members: tuple[Process, ...], counter: int) -> list[Output]:
        return [*self.signal(together, counter), *self.installed(together, members, counter)]

    def exchange(self, *members: Process, said: dict[Process, GroupMessage] | None = None) -> list[Output]:
        """Delivers all GROUPS of the view: those of this daemon, the given ones of others, and empty ones."""
        out = self.delivered(ME, self.taken())
        for one in members:
            if one != ME:
                group_message = (said or {}).get(one, GroupsPart(self.view, 0, 1, 0))
                out.extend(self.deliver(one, DAEMON_SESSION, group_message))
        return out

    def join(self, session: int, name: str, group: GroupName, minimum: int = 0) -> list[Output]:
        """A session connects and joins, and the messages for that are delivered."""
        out = [*self.step(Connect(session, name)), *self.step(JoinGroup(session, group, minimum))]
        while submits := self.taken():
            out.extend(self.delivered(ME, submits))
        return out

    def send(self, session: int, service: Service, *groups: str) -> None:
        key = BundleKey(ME.daemon, session, service, tuple([GroupName(name) for name in groups]))
        self.step(Send(session, key, encode_bundle(key, [b"body"], [7], [0])))


def member(process: Process, name: str, session: int) -> GroupMember:
    return GroupMember(process.daemon, name, process.incarnation, session)


def views(outputs: list[Output]) -> list[ShowView]:
    return [one for one in outputs if isinstance(one, ShowView)]


def signals(outputs: list[Output]) -> list[ShowSignal]:
    return [one for one in outputs if isinstance(one, ShowSignal)]


def delivers(outputs: list[Output]) -> list[tuple[int, ...]]:
    return [one.sessions for one in outputs if isinstance(one, DeliverBundle)]
