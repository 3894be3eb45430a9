"""Forms of replicated blocks for programs without an event loop: the asyncio forms in a thread of their own.

A member of a replicated log votes, and a member of a map answers joiners, also while the program computes. So
each of these has a thread with an event loop and a session of its own in it, from `with` to the block's end.
What a program calls runs in that thread, and the call waits for its result.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Final, Generic, Protocol, Self, TypeVar

from hopring.client.aio import Session, connect
from hopring.client.arguments import ConnectOptions
from hopring.client.errors import SessionClosed

R = TypeVar("R")

_NAME: Final = "hopring"


class AioBlock(Protocol):
    """The asyncio form of a block."""

    async def __aenter__(self) -> Any: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


B = TypeVar("B", bound=AioBlock)


class BlockInThread(Generic[B]):
    """A block of the asyncio form with its session, in a thread; the base of the blocking forms."""

    def __init__(self, url: str, options: ConnectOptions, make: Callable[[Session[bytes]], B]) -> None:
        self._url = url
        self._options = options
        self._make = make
        self._loop: asyncio.AbstractEventLoop | None = None
        self._session: Session[bytes] | None = None
        self._block: B | None = None

    def __enter__(self) -> Self:
        """Connects, and returns when the block is ready."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=_NAME, daemon=True)
        self._thread.start()
        try:
            self._run(self._open())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._run(self._close(kind is None))
        finally:
            self._stop()

    async def _open(self) -> None:
        session: Session[bytes] = await connect(self._url, **self._options)
        try:
            block = self._make(session)
            await block.__aenter__()
        except BaseException:
            session.abort()
            raise
        self._session, self._block = session, block

    async def _close(self, orderly: bool) -> None:
        session, block = self._session, self._block
        self._session = self._block = None
        assert session is not None, "it was entered"
        assert block is not None, "it was entered"
        try:
            await block.__aexit__(None, None, None)
        finally:
            if orderly and session.ended is None:
                await session.close()
            else:
                session.abort()

    def _stop(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join()
            loop.close()

    @property
    def _inner(self) -> B:
        block = self._block
        if block is None:
            raise SessionClosed("it is used outside of its `with` block")
        return block

    def _run(self, awaited: Awaitable[R]) -> R:
        """Awaits something in the thread, and waits for its result."""
        loop = self._loop
        if loop is None:
            raise SessionClosed("it is used outside of its `with` block")

        async def whole() -> R:
            return await awaited

        future: Future[R] = asyncio.run_coroutine_threadsafe(whole(), loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # The program was interrupted.
            raise

    def _call(self, function: Callable[[B], R]) -> R:
        """Calls a function with the block, in the thread: nothing changes meanwhile."""
        block = self._inner

        async def called() -> R:
            return function(block)

        return self._run(called())

    def _each(self, make: Callable[[B], AsyncIterator[R]]) -> Iterator[R]:
        """Yields what an asynchronous iterator of the block yields."""
        each = make(self._inner)

        async def following() -> R:
            return await anext(each)

        async def ended() -> None:
            close = getattr(each, "aclose", None)
            if close is not None:
                await close()

        try:
            while True:
                try:
                    one = self._run(following())
                except StopAsyncIteration:
                    return
                yield one
        finally:
            if self._loop is not None:
                self._run(ended())
