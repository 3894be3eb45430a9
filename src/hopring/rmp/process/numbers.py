"""Numbers of processes: the session server names processes by number, and numbers are of one process only.

Invariants  this process has number 0; a number belongs to one process as long as that is in a list here.
"""

from collections.abc import Iterable
from typing import Final

from hopring.groups.names import GroupMember
from hopring.ids import DaemonId, Incarnation
from hopring.wire.rmp.ids import PeerProcess

SESSION: Final = 1
"""The number of the one session of each process."""


class ProcessNumbers:
    """The processes that this one knows, by number."""

    def __init__(self, me: PeerProcess) -> None:
        self.names: list[str] = []
        """`host:port` of each process, by number."""
        self._numbers: dict[PeerProcess, DaemonId] = {}
        self._free: list[DaemonId] = []
        self.number(me)

    def number(self, process: PeerProcess) -> DaemonId:
        """The number of a process, which may be new."""
        number = self._numbers.get(process)
        if number is None:
            if self._free:
                number = self._free.pop()
                self.names[number] = str(process)
            else:
                number = DaemonId(len(self.names))
                self.names.append(str(process))
            self._numbers[process] = number
        return number

    def member(self, process: PeerProcess, name: str) -> GroupMember:
        """The session of a process as a member of a group."""
        return GroupMember(self.number(process), name, Incarnation(process.nonce), SESSION)

    def keep(self, processes: Iterable[PeerProcess]) -> None:
        """Frees the numbers of all other processes, except this one's."""
        kept = set(processes)
        for process, number in list(self._numbers.items()):
            if number and process not in kept:
                del self._numbers[process]
                self._free.append(number)
