"""A proxy between a client and its daemon that can cut connections on one side or on both."""

import asyncio
import contextlib
from types import TracebackType


class Proxy:
    """Use it as `async with Proxy(port) as proxy`."""

    def __init__(self, port: int) -> None:
        """`port` is the daemon's, on loopback."""
        self._port = port
        self._tasks: set[asyncio.Task[None]] = set()
        self.accepted = 0
        """Number of clients that have connected so far."""
        self._towards_clients: list[asyncio.StreamWriter] = []
        self._towards_daemon: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> "Proxy":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        self.cut_clients()
        self.cut_daemon()
        for task in list(self._tasks):
            task.cancel()

    @property
    def url(self) -> str:
        """The address at which clients connect to the proxy."""
        return f"hop://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut_clients(self) -> None:
        """Cuts the clients' connections; the daemon does not notice."""
        _abort(self._towards_clients)

    def cut_daemon(self) -> None:
        """Cuts the connections to the daemon."""
        _abort(self._towards_daemon)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._port)
        self.accepted += 1
        self._towards_clients.append(writer)
        self._towards_daemon.append(there_writer)
        # The end of a client's side is not passed on to the daemon.
        for source, sink, tells in ((reader, there_writer, False), (there_reader, writer, True)):
            task = asyncio.ensure_future(_carry(source, sink, tells))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


async def _carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter, tells: bool) -> None:
    with contextlib.suppress(OSError):
        while chunk := await source.read(1 << 16):
            sink.write(chunk)
            await sink.drain()
        if tells and not sink.is_closing():
            sink.write_eof()


def _abort(writers: list[asyncio.StreamWriter]) -> None:
    for writer in writers:
        writer.transport.abort()
    writers.clear()
