"""Programs of users in a deployment: sessions of the client library that join, send and leave, and record all.

A program does one thing after the other, and reads events beside that, as programs of users do. Requests are
recorded when they are made, and events when its own `async for` gets them.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from hopring.client.aio import Session, connect
from hopring.errors import HopError
from hopring.local.session_recorder import SessionRecorder
from hopring.services import Service
from hopring.sim.deployment.event_loop import SimEventLoop
from hopring.sim.deployment.kernel import SimProcess

if TYPE_CHECKING:
    from hopring.sim.deployment.daemons import Deployment

CONNECT_SECONDS: Final = 2.0
WAITING_MAX: Final = 20
"""Actions that wait for an earlier one; further ones are left out."""


class ClientProgram:
    """One program with one session, from its start to its end."""

    def __init__(
        self, deployment: "Deployment", daemon: str, name: str, url: str, window_bytes: int, slow_us: int
    ) -> None:
        """It waits for `slow_us` after each event."""
        self.daemon: Final = daemon
        self.name: Final = name
        self.recorders: list[SessionRecorder] = []
        self.groups: set[str] = set()
        self.failure = ""
        """Why the session ended, if it did not leave."""
        self.process: Final = SimProcess(deployment.kernel, deployment.machine_of(daemon), name)
        self._loop = SimEventLoop(self.process)
        self._session: Session[bytes] | None = None
        self._actions: deque[Callable[[], Awaitable[None]]] = deque()
        self._news = asyncio.Event()
        self._window_bytes = window_bytes
        self._slow_us = slow_us
        self._ending = False
        self._closed = False
        self._gone = False
        with deployment.kernel.running(self.process):
            self._task = self._loop.create_task(self._live(url))
        self.process.wake()

    @property
    def ready(self) -> bool:
        """Whether it is connected and can do more."""
        lives = self.process.alive and not self._ending and not self.failure
        return lives and self._session is not None and len(self._actions) < WAITING_MAX

    @property
    def known(self) -> bool:
        """Whether it has seen a view."""
        return bool(self.recorders) and self.recorders[-1].process is not None

    @property
    def problems(self) -> list[str]:
        """Errors that no user should see."""
        found = list(self._loop.failures)
        if self._task.done() and not self._task.cancelled() and self._task.exception() is not None:
            found.append(repr(self._task.exception()))
        return found

    # What it does.

    def join(self, group: str) -> None:
        """Joins a group, behind what it does already."""
        self.groups.add(group)
        self._do(lambda: self._join(group))

    def leave(self, group: str) -> None:
        """Leaves a group, behind what it does already."""
        self.groups.discard(group)
        self._do(lambda: self._leave(group))

    def send(self, groups: tuple[str, ...], service: Service, size: int, self_discard: bool) -> None:
        """Sends a message, behind what it does already."""
        self._do(lambda: self._send(groups, service, size, self_discard))

    def close(self) -> None:
        """Ends its session, and itself."""
        self._ending = True
        self._do(self._close)

    def kill(self) -> None:
        """Is killed by somebody else."""
        self.note_end()
        self.process.kill()

    def note_end(self) -> None:
        """Its end is about to happen, without an act of its own: it sees nothing more."""
        if self.process.alive and self.recorders and not self.failure and not self._gone:
            if not self._ending:
                self.recorders[-1].note_end()
            self.recorders[-1].note_gone()
            self._gone = True
        self._ending = True

    def _do(self, action: Callable[[], Awaitable[None]]) -> None:
        self._actions.append(action)
        self._loop.call_soon(self._news.set)

    # The program.

    async def _live(self, url: str) -> None:
        try:
            self._session = await connect(
                url,
                name=self.name,
                timeout_seconds=CONNECT_SECONDS,
                reconnect=False,
                window_bytes=self._window_bytes,
            )
        except HopError as error:
            self.failure = str(error)
            return
        self.recorders.append(SessionRecorder(self._session))
        reading = asyncio.get_running_loop().create_task(self._read(self._session))
        try:
            while not reading.done():
                while self._actions and not reading.done():
                    await self._actions.popleft()()
                self._news.clear()
                if not self._actions:
                    wait = asyncio.get_running_loop().create_task(self._news.wait())
                    await asyncio.wait([reading, wait], return_when=asyncio.FIRST_COMPLETED)
                    wait.cancel()
        except HopError as error:
            self.failure = self.failure or str(error)
        await reading
        if self._closed:
            # Behind the events that it had and has read only now.
            self.recorders[-1].note_gone()
            self._gone = True

    async def _read(self, session: "Session[bytes]") -> None:
        try:
            async for event in session:
                self.recorders[-1].note_event(event)
                if self._slow_us:
                    await asyncio.sleep(self._slow_us / 1_000_000)
        except HopError as error:
            self.failure = self.failure or str(error)

    async def _join(self, group: str) -> None:
        assert self._session is not None, "it is connected"
        self.recorders[-1].note_join(group)
        await self._session.join(group)

    async def _leave(self, group: str) -> None:
        assert self._session is not None, "it is connected"
        self.recorders[-1].note_leave(group)
        await self._session.leave(group)
        self.recorders[-1].note_due_leaves()

    async def _send(self, groups: tuple[str, ...], service: Service, size: int, self_discard: bool) -> None:
        assert self._session is not None, "it is connected"
        if self.recorders[-1].process is None:
            return  # It has no name in the history before its first view.
        data = self.recorders[-1].note_send(groups, service, bytes(size), self_discard)
        await self._session.multicast(groups, data, service=service, self_discard=self_discard)

    async def _close(self) -> None:
        assert self._session is not None, "it is connected"
        self.recorders[-1].note_end()
        await self._session.close()
        self._closed = True
