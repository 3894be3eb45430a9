"""The event loop of asyncio on a simulated kernel: asyncio's own, with another clock, selector and sockets.

Transports, tasks, timers and their order are those of the standard library, as in a user's program.
"""

import asyncio
import select
import selectors
import socket
from asyncio import events
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from hopring.sim.deployment.kernel import SimPoller
from hopring.sim.deployment.streams import StreamSocket, Where

if TYPE_CHECKING:
    from hopring.sim.deployment.kernel import SimProcess

TURNS_MAX: Final = 1_000
"""More turns than this at one moment mean that a program goes round in a circle."""


class SimSelector(selectors.BaseSelector):
    """A selector on a simulated poller; it never waits."""

    def __init__(self, process: "SimProcess") -> None:
        self._poller = SimPoller(process)
        self._keys: dict[int, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Watches a socket from now on."""
        fd = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        key = self._keys[fd] = selectors.SelectorKey(fileobj, fd, events, data)
        self._poller.register(fd, _mask(events))
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        """Watches a socket no more."""
        fd = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        key = self._keys.pop(fd)
        self._poller.unregister(fd)
        return key

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Watches it for other events."""
        fd = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        key = self._keys[fd] = selectors.SelectorKey(fileobj, fd, events, data)
        self._poller.modify(fd, _mask(events))
        return key

    def select(self, seconds: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """The sockets that are ready now; it never waits."""
        del seconds
        found: list[tuple[selectors.SelectorKey, int]] = []
        for fd, mask in self._poller.poll(0, 256):
            key = self._keys[fd]
            ready = (selectors.EVENT_WRITE if mask & ~select.EPOLLIN else 0) | (
                selectors.EVENT_READ if mask & ~select.EPOLLOUT else 0
            )
            if ready & key.events:
                found.append((key, ready & key.events))
        return found

    @property
    def idle(self) -> bool:
        """Whether nothing can be ready."""
        return self._poller.idle

    def get_map(self) -> Any:
        """All sockets that it watches."""
        return self._keys

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        """How it watches a socket."""
        return self._keys[fileobj if isinstance(fileobj, int) else fileobj.fileno()]

    def close(self) -> None:
        """Watches none of its sockets any more."""
        self._keys.clear()


class SimEventLoop(asyncio.SelectorEventLoop):
    """The event loop of one simulated process."""

    def __init__(self, process: "SimProcess") -> None:
        self._process = process
        with process.kernel.running(process):
            self._sim_selector = SimSelector(process)
            self._wake = process.kernel.timer()
            self._wake_poller = process.kernel.poller()
            self._wake_poller.register(self._wake.fileno(), select.EPOLLIN | select.EPOLLET)
        super().__init__(self._sim_selector)
        self.failures: list[str] = []
        """What ended tasks without anybody who waited for them."""
        self.set_exception_handler(self._failed)
        self.set_task_factory(_quiet_task)
        process.step = self.run_what_is_ready

    def __del__(self) -> None:
        """A program that was killed closes nothing."""

    def _check_closed(self) -> None:
        """It is never closed: what is left of a killed program may still be tidied up by Python."""

    def time(self) -> float:
        """Virtual time, in seconds as asyncio has it."""
        return self._process.kernel.monotonic_ns() / 1e9

    def _make_self_pipe(self) -> None:
        """No other thread wakes it."""
        self._internal_fds = 0

    def _close_self_pipe(self) -> None:
        """There is none to be closed."""

    def _process_self_data(self, _data: bytes) -> None:
        """Nobody writes to such a pipe."""

    def run_what_is_ready(self) -> bool:
        """Runs turns until there is nothing to do, and sets the timer for what comes later."""
        self._wake_poller.poll(0, 8)
        before = events._get_running_loop()
        events._set_running_loop(self)
        try:
            for _ in range(TURNS_MAX):
                self._run_once()  # type: ignore[attr-defined]
                ready = self._ready  # type: ignore[attr-defined]
                if not ready and self._sim_selector.idle:
                    break
            else:
                raise AssertionError(f"{self._process.name} does not come to rest")
        finally:
            events._set_running_loop(before)
        scheduled = self._scheduled  # type: ignore[attr-defined]
        if scheduled:
            self._wake.set(int(scheduled[0]._when * 1e6) + 1)
        return False

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Any = None) -> asyncio.Handle:  # type: ignore[override]
        """As asyncio does; the process runs."""
        handle = super().call_soon(callback, *args, context=context)
        self._process.wake()
        return handle

    async def create_unix_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], path: str | None = None, **more: Any
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        """Connects to a path of this machine."""
        del more
        assert path is not None, "nobody attaches to a peer here"
        return await self._connected(protocol_factory, socket.AF_UNIX, path)

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        **more: Any,
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        """Connects to an address by TCP."""
        del more
        assert host is not None, "an address"
        assert port is not None, "an address"
        return await self._connected(protocol_factory, socket.AF_INET, (host, port))

    async def _connected(
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], family: int, where: Where
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        sock = StreamSocket(self._process, family)
        failure = sock.connect_ex(where)
        opened = self.create_future()
        fd = sock.fileno()
        if failure in (0, 115):

            def ready() -> None:
                if not opened.done():
                    opened.set_result(None)

            self._add_writer(fd, ready)  # type: ignore[attr-defined]
            try:
                await opened
            except BaseException:
                sock.close()
                raise
            finally:
                self._remove_writer(fd)  # type: ignore[attr-defined]
            failure = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if failure:
            sock.close()
            raise ConnectionRefusedError(failure, "refused")
        protocol = protocol_factory()
        waiter = self.create_future()
        make = self._make_socket_transport  # type: ignore[attr-defined]
        transport = make(cast("socket.socket", sock), protocol, waiter)
        await waiter
        return transport, protocol

    def _failed(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.failures.append(f"{context.get('message')}: {context.get('exception')!r}")


def _quiet_task(loop: asyncio.AbstractEventLoop, coro: Any, **more: Any) -> "asyncio.Task[Any]":
    """A task that says nothing when its program was killed before it ended."""
    task: asyncio.Task[Any] = asyncio.Task(coro, loop=loop, **more)
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    return task


def _mask(wanted: int) -> int:
    return (select.EPOLLIN if wanted & selectors.EVENT_READ else 0) | (
        select.EPOLLOUT if wanted & selectors.EVENT_WRITE else 0
    )
