"""The four calls of the long-haul paper under their own names and with their own arguments.

    async with isis.IsisCalls(session) as here:
        vendors = await here.set_join("tickets", "vendors", ["hub", "norway"])
        pair = here.getConvID("tickets", ["hub", "norway"])
        await here.pc_cbcast("tickets", isis.ALL, 1, b"3 left", pair)
        async for event in vendors: ...

Implements  Makpangou and Birman (1990), the interface of 4.1.2, 4.1.3 and 5.3.
Below       sets.py, of which these are thin forms.
Deviations  the calls are coroutines. `set_join` returns the set, whose events come in one stream with their
            entry points, because there are no routines to be called. The multicasts return a receipt where
            the paper returns nothing. An abcast is for all participants: the paper passes one for some of
            them to a coordinator, which would number what the others never see.
"""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Final, NewType, Self

from hopring.client.aio import Session
from hopring.client.errors import WrongValue
from hopring.haul.ids import ClusterMask
from hopring.wide.errors import NotInSet
from hopring.wide.library.events import WideReceipt
from hopring.wide.library.sets import JoinedSet, WideConversation, join

ALL: Final = "all"
"""As a destination: all participants of the conversation."""

ConvID = NewType("ConvID", int)
"""A conversation, as the bit vector of its participants: bit 0 is the cluster with id 1."""


class IsisCalls:
    """The sets that a program has joined, and the paper's calls on them; they are left with the block."""

    def __init__(self, session: Session[Any]) -> None:
        self._program = session
        self._stack = AsyncExitStack()
        self._sets: dict[str, JoinedSet] = {}
        self._conversations: dict[tuple[str, ConvID], WideConversation] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    async def set_join(
        self, set_name: str, gname: str | None = None, clist: Sequence[str] | None = None
    ) -> JoinedSet:
        """Makes the set in the clusters of `clist` if it is new, and registers `gname` as its local group.

        That triggers the delivery of whatever waits for this cluster. Without `clist` the set has all clusters,
        without `gname` the group has the set's name, as in 5.3. Joining again returns the same set.
        """
        if set_name not in self._sets:
            joined = join(self._program, set_name, group=gname, clusters=clist)
            self._sets[set_name] = await self._stack.enter_async_context(joined)
        return self._sets[set_name]

    def getConvID(self, set_name: str, participants: Sequence[str]) -> ConvID:
        """The conversation of these clusters of the set; the same participants are the same conversation."""
        joined = self._joined(set_name)
        found = ConvID(joined._service.mask(tuple(participants)))
        if not found:
            raise WrongValue("participants", "empty", "name the clusters of the conversation")
        names = joined._service.names(ClusterMask(found))
        self._conversations.setdefault((set_name, found), joined.conversation(*names))
        return found

    async def pc_cbcast(self, set_name: str, dest: str, entry: int, msg: bytes, conv: ConvID) -> WideReceipt:
        """Sends a message in causal order to one cluster, or to `ALL` participants of the conversation."""
        talk = self._conversation(set_name, conv)
        return await talk.cbcast(msg, to=None if dest == ALL else dest, entry=entry)

    async def pc_abcast(self, set_name: str, dest: str, entry: int, msg: bytes, conv: ConvID) -> WideReceipt:
        """Sends a message to all participants, in one order with all abcasts of the conversation."""
        if dest != ALL:
            reason = "an abcast goes to all participants"
            raise WrongValue("dest", reason, f"give {ALL!r}, or another conversation")
        return await self._conversation(set_name, conv).abcast(msg, entry=entry)

    def _joined(self, set_name: str) -> JoinedSet:
        found = self._sets.get(set_name)
        if found is None:
            raise NotInSet(f"the set {set_name}", "this program has not joined it", "call set_join first")
        return found

    def _conversation(self, set_name: str, conv: ConvID) -> WideConversation:
        joined = self._joined(set_name)
        if (set_name, conv) not in self._conversations:
            self.getConvID(set_name, joined._service.names(ClusterMask(conv)))
        return self._conversations[set_name, conv]
