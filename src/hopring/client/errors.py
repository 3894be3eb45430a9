"""Errors for applications: the text has the reason and a remedy, the fields have the details."""

from hopring.client.events import Reply
from hopring.errors import HopError


class BadArgument(HopError):
    """A call with an invalid argument; nothing was done, and the session is unchanged."""

    def __init__(self, argument: str, reason: str, remedy: str) -> None:
        super().__init__(f"{argument}: {reason}; {remedy}")
        self.argument = argument
        self.reason = reason
        self.remedy = remedy


class WrongType(BadArgument, TypeError):
    """An argument of the wrong type."""


class WrongValue(BadArgument, ValueError):
    """An argument of the right type with a value that is out of range or malformed."""


class ConnectError(HopError, ConnectionError):
    """No session could be made: the daemon does not answer, or refuses."""

    def __init__(self, url: str, reason: str, remedy: str) -> None:
        super().__init__(f"{url}: {reason}; {remedy}")
        self.url = url
        self.reason = reason
        self.remedy = remedy


class NameInUse(ConnectError):
    """Another session of this daemon has the name."""


class NotAllowed(ConnectError):
    """The client has no right to this, or was not authenticated; the remedy names the key to set.

    Refused after the session was made (`request` is not "hello"), the session goes on. Plain messages are sent
    without waiting, so a refusal of one is raised by the next call that sends or closes.
    """

    def __init__(self, url: str, reason: str, remedy: str, request: str = "hello", name: str = "") -> None:
        super().__init__(url, reason if not name else f"{request} {name!r}: {reason}", remedy)
        self.url = url
        self.reason = reason
        self.remedy = remedy
        self.request = request  # hello, join, send or members.
        self.name = name  # The session's name, the group, the application or the right.


class NotPrimary(HopError):
    """The daemons' view is not primary, and what was asked for is done in primary views only.

    A message with `resilience=MAJORITY` was not sent. Messages are sent without waiting, so this is raised by
    the next call that sends or closes, or by `multicast_wait` itself.
    """

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(f"{reason}; {remedy}")
        self.reason = reason
        self.remedy = remedy


class GroupSuspended(HopError):
    """A message to a group that is below its minimum: on this side of the network nobody gets it.

    If it was under way when a split began, members on another side may have got it. Messages are sent without
    waiting, so this is raised by the next call that sends or closes, or by `multicast_wait` itself.
    """

    def __init__(self, group: str, reason: str, remedy: str) -> None:
        super().__init__(f"group {group!r}: {reason}; {remedy}")
        self.group = group
        self.reason = reason
        self.remedy = remedy


class NotOffered(HopError):
    """The engine of this session cannot offer it: rings of peers, at an `rmp://` URL, offer less than daemons.

    Messages are sent without waiting, so a refusal of one is raised by the next call that sends or closes, or
    by `multicast_wait` itself.
    """

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(f"{reason}; {remedy}")
        self.reason = reason
        self.remedy = remedy


class TimedOut(HopError, TimeoutError):
    """The answer did not arrive in time."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"{what}: no answer for {seconds:g} s; is the daemon in a view, and reachable?")
        self.what = what
        self.seconds = seconds


class SessionClosed(HopError, ConnectionError):
    """The session has ended. Messages in doubt may have been sent or not; none was sent twice."""

    def __init__(self, reason: str, remedy: str = "connect again", in_doubt: int = 0) -> None:
        doubt = f"; messages in doubt: {in_doubt}" if in_doubt else ""
        super().__init__(f"the session has ended: {reason}; {remedy}{doubt}")
        self.reason = reason
        self.remedy = remedy
        self.in_doubt = in_doubt


class SlowConsumer(SessionClosed):
    """The daemon ended the session because its backlog was too long."""


class InDoubt(HopError):
    """It is unknown whether a message is or will be delivered. It is not sent again.

    The connection was lost before the receipt of a `multicast_wait` came. Or the message had
    `resilience=MAJORITY`, and the view ceased to be primary meanwhile: nobody on this side gets it, the primary
    side may have.
    """

    def __init__(self, groups: tuple[str, ...], reason: str) -> None:
        super().__init__(
            f"a message to {' '.join(groups)}: {reason}; it may be delivered or not: ask the receivers"
        )
        self.groups = groups
        self.reason = reason


class NoReceipt(InDoubt, TimedOut):
    """The receipt did not arrive in time; the message may still be delivered."""

    def __init__(self, groups: tuple[str, ...], seconds: float) -> None:
        self.groups = groups
        self.reason = f"no receipt for {seconds:g} s"
        self.what = "multicast_wait"
        self.seconds = seconds
        text = f"a message to {' '.join(groups)}: {self.reason}; it was sent and may still be delivered"
        HopError.__init__(self, text)


class Expired(HopError, TimeoutError):
    """A message whose time to live ended before its daemon gave it to the order: nobody gets it."""

    def __init__(self, groups: tuple[str, ...], seconds: float) -> None:
        text = (
            f"a message to {' '.join(groups)} was not sent: its time to live, {seconds:g} s, ended before that"
        )
        super().__init__(f"{text}; send it again, or give it more time")
        self.groups = groups
        self.seconds = seconds


class BatchInDoubt(InDoubt):
    """A batch that was not sent completely, or lacks receipts. It may be sent again."""

    def __init__(self, group: str, app: str, batch: int, reason: str) -> None:
        self.groups = (group,)
        self.app = app
        self.batch = batch
        self.reason = reason
        again = "send it again under the same number, by a session of the same name"
        again = f"{again}: receivers drop what they have had"
        HopError.__init__(self, f"batch {batch} of {app!r} to {group}: {reason}; {again}")


class ProviderFailed(HopError):
    """A provider of a group's state raised an error, or its snapshot was not as long as it had said."""

    def __init__(self, group: str, call: str, reason: str, remedy: str) -> None:
        super().__init__(f"the state of {group}: {call} failed: {reason}; {remedy}")
        self.group = group
        self.call = call  # snapshot, restore or merge.
        self.reason = reason
        self.remedy = remedy


class NoState(HopError):
    """No member can give the state of a group: all that have it failed. The session is still a member."""

    def __init__(self, group: str, reasons: tuple[tuple[str, str], ...]) -> None:
        texts = ", ".join(f"{speaker}: {reason}" for speaker, reason in reasons)
        super().__init__(f"the state of {group}: nobody can give it ({texts}); leave, and join again later")
        self.group = group
        self.reasons = reasons  # Of each member that failed: its private group, and why.


class NoResponders(HopError):
    """A request to a group that nobody serves, at its place in the order. It was not done."""

    def __init__(self, group: str) -> None:
        super().__init__(f"a request to {group}: nobody serves it; start a server, or correct the name")
        self.group = group


class MissingReplies(HopError):
    """Too few servers are left to reply: the others have left, died or are on another side of the network."""

    def __init__(
        self, group: str, replies: tuple[Reply, ...], missing: tuple[str, ...], servers: int, wanted: str
    ) -> None:
        self.group = group
        self.replies = replies  # The replies that came.
        self.missing = missing  # Servers that have not replied, by private group; they may have done it.
        self.servers = servers  # How many there were at the place of the request.
        HopError.__init__(self, f"a request to {group}: {self._facts(wanted)}; {self._remedy()}")

    def _facts(self, wanted: str) -> str:
        names = " ".join(self.missing[:8]) + (" ..." if len(self.missing) > 8 else "")
        missing = f", missing: {names}" if names else ""
        return f"{len(self.replies)} replies of {self.servers} servers, and {wanted} wanted{missing}"

    def _remedy(self) -> str:
        return "ask again those that are left, or wait until the others are back"


class RepliesTimedOut(MissingReplies, TimedOut):
    """Too few replies in time; the servers that are missing may still do it."""

    def __init__(
        self,
        group: str,
        replies: tuple[Reply, ...],
        missing: tuple[str, ...],
        servers: int,
        wanted: str,
        seconds: float,
    ) -> None:
        self.group = group
        self.replies = replies
        self.missing = missing
        self.servers = servers
        self.what = "request"
        self.seconds = seconds
        HopError.__init__(self, f"a request to {group}: {self._facts(wanted)}; {self._remedy()}")

    def _remedy(self) -> str:
        return f"no more for {self.seconds:g} s: are the servers overloaded?"


class RequestFailed(HopError):
    """A server could not do the request; the text is that of its error."""

    def __init__(
        self, group: str, server: str, text: str, replies: tuple[Reply, ...], missing: tuple[str, ...]
    ) -> None:
        super().__init__(f"a request to {group} failed at {server}: {text}")
        self.group = group
        self.server = server  # The first one that failed, by private group.
        self.text = text
        self.replies = replies  # All replies, those of servers that failed included.
        self.missing = missing  # Servers that had not replied by then.


class LockTimedOut(TimedOut):
    """The lock was not granted in time; the claim is given up."""

    def __init__(self, group: str, lock: str, seconds: float) -> None:
        self.group = group
        self.lock = lock
        self.what = "lock"
        self.seconds = seconds
        text = f"lock {lock!r} of group {group!r}: not granted for {seconds:g} s; another session holds it"
        HopError.__init__(self, f"{text}, or a lease has to run out")


class LockLost(HopError):
    """The session held a lock and does not any more; the fence keeps it from what is guarded."""

    def __init__(self, group: str, lock: str, fence: int, reason: str) -> None:
        super().__init__(f"lock {lock!r} of group {group!r}: lost ({reason}); lock it again")
        self.group = group
        self.lock = lock
        self.fence = fence
        self.reason = reason


class LockRefused(HopError):
    """A claim beyond a limit."""

    def __init__(self, group: str, lock: str, reason: str, remedy: str) -> None:
        super().__init__(f"lock {lock!r} of group {group!r}: {reason}; {remedy}")
        self.group = group
        self.lock = lock
        self.reason = reason
        self.remedy = remedy


class LockNotHeld(HopError, ValueError):
    """A lock that this session does not hold, or not with this fence."""

    def __init__(self, group: str, lock: str, reason: str) -> None:
        super().__init__(f"lock {lock!r} of group {group!r}: {reason}; give the fence that the lock returned")
        self.group = group
        self.lock = lock
        self.reason = reason


class MessageTooLarge(HopError, ValueError):
    """A message above the daemon's limit."""

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(f"a message of {size_bytes} bytes; the daemon takes {limit_bytes} at most: split it")
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class Undecodable(HopError, ValueError):
    """The value of a message that the session's codec could not decode; the message has its bytes."""

    def __init__(self, sender: str, reason: str, data: bytes) -> None:
        super().__init__(
            f"a message of {sender}: the codec cannot decode it ({reason}); its data has the bytes"
        )
        self.sender = sender
        self.reason = reason
        self.data = data


class MissingExtra(HopError, ImportError):
    """A call that needs a package which is not installed."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(f"{what} needs {package}: pip install 'hopring[{extra}]'")
        self.what = what
        self.package = package
        self.extra = extra


class RequestRefused(HopError, ValueError):
    """A join or leave that was refused."""

    def __init__(self, group: str, reason: str, remedy: str) -> None:
        super().__init__(f"group {group!r}: {reason}; {remedy}")
        self.group = group
        self.reason = reason
        self.remedy = remedy


class NotMember(RequestRefused):
    """The session is not in the group."""


class AlreadyMember(RequestRefused):
    """The session is in the group already, or is about to be."""


class FlushPending(RequestRefused):
    """A message to a group with view synchrony that has no view to be sent in now."""


class NotAsked(RequestRefused):
    """An agreement to a flush that was not requested, or was agreed to already."""
