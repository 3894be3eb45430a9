"""Errors of replicated logs and work queues: the text has the reason and a remedy, the fields the details."""

from hopring.client.errors import InDoubt
from hopring.errors import HopError


class NoQuorum(HopError):
    """Less than a majority of the configured members is on this side of the network: nothing was appended."""

    def __init__(self, group: str, members: tuple[str, ...], present: tuple[str, ...]) -> None:
        missing = " ".join([one for one in members if one not in present]) or "none"
        reason = f"{len(present)} of {len(members)} members are here with their log, missing: {missing}"
        super().__init__(f"the log {group}: {reason}; start them, or wait until the network has healed")
        self.group = group
        self.members = members
        self.present = present


class NotAccepted(InDoubt):
    """An operation is not accepted yet; it is repeated until it is, or until the program ends."""


class ApplyFailed(HopError):
    """The program's machine raised an error for an operation, which is in the list of all members."""

    def __init__(self, group: str, reason: str) -> None:
        super().__init__(f"the log {group}: the machine failed: {reason}; mend its `apply` at all members")
        self.group = group
        self.reason = reason


class NotAMember(HopError):
    """This program cannot take part in the log; those of the others go on."""

    def __init__(self, group: str, reason: str, remedy: str) -> None:
        super().__init__(f"the log {group}: {reason}; {remedy}")
        self.group = group
        self.reason = reason
        self.remedy = remedy


class LogDiskFailed(HopError):
    """The disk of this member refuses. Nothing counts as synced here; the log goes on if a majority does."""

    def __init__(self, group: str, reason: str) -> None:
        super().__init__(f"the log {group}: {reason}")
        self.group = group
        self.reason = reason  # With the remedy, as the spool gives it.


class LogTrimmed(HopError, LookupError):
    """An operation of the list that is not kept any more."""

    def __init__(self, group: str, index: int, first: int) -> None:
        super().__init__(f"the log {group}: operation {index} is not kept; begin at {first}, or keep more")
        self.group = group
        self.index = index
        self.first = first
