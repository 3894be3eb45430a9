"""The sockets of a blocking session: one after another, non-blocking, driven by `poll`."""

import contextlib
import os
import select
import socket
import time
from importlib import import_module
from math import ceil
from typing import Any, Final

from hopring.client.arguments import parse_url
from hopring.client.connection import EncryptedChannel
from hopring.client.core import CUT_HANDSHAKE, NO_DAEMON, SEE_LOG, ClientCore
from hopring.client.sockets import expect_blocks, now_us, reason_of, tune
from hopring.errors import ChannelRefused
from hopring.ids import NEVER

READ_BYTES: Final = 1 << 18
WAIT_MS_MAX: Final = 1_000_000_000
"""The kernel takes no longer times; who waits longer asks again."""

Address = tuple[int, Any]
"""A socket family and an address of it."""


class BlockingTransport:
    """Carries bytes between a core and its daemon while a call waits."""

    def __init__(self, core: ClientCore) -> None:
        self._core = core
        self._socket: socket.socket | None = None
        self._opening = False
        self._addresses: list[Address] = []  # To try if the present one does not answer.
        self._rest = memoryview(b"")  # Output that the kernel has not taken.
        self._channel: EncryptedChannel | None = None  # TLS of the present connection; None for clear text.

    def fileno(self) -> int:
        """The descriptor of the present socket, or -1."""
        return -1 if self._socket is None else self._socket.fileno()

    def close(self) -> None:
        """Closes the socket of the present connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._opening = False
        self._addresses = []
        self._rest = memoryview(b"")
        self._channel = None

    def exchange(self, until_us: int) -> None:
        """Connects, writes and reads as far as possible; waits for any of it until this time at most."""
        now = now_us()
        self._check_connection(now)
        if self._core.ended is not None:
            return
        end_us = min(until_us, self._core.wake_at_us)
        seconds = None if end_us == NEVER else max(0, end_us - now) / 1_000_000
        if self._socket is None:
            assert seconds is not None, "without a connection another try is scheduled"
            time.sleep(seconds)
        else:
            self._serve(self._socket, seconds)
        self._check_connection(now_us())

    def _check_connection(self, now: int) -> None:
        """Closes the socket of an ended connection, and connects if it is time."""
        self._core.tick(now)
        if self._core.connection.ended is not None:
            self.close()
        url = self._core.dial(now)
        if url is not None:
            self._dial(url)

    def _serve(self, sock: socket.socket, seconds: float | None) -> None:
        try:
            if not self._opening:
                self._write(sock)
            wanted = select.POLLIN | (select.POLLOUT if self._rest or self._opening else 0)
            # Not `select`, which cannot wait for descriptors above 1023.
            poll = select.poll()
            poll.register(sock, wanted)
            found = poll.poll(None if seconds is None else min(ceil(seconds * 1_000), WAIT_MS_MAX))
            if not found:
                return
            if self._opening:
                self._opened(sock)
                return
            events = found[0][1]
            if events & select.POLLOUT:
                self._write(sock)
            if events & ~select.POLLOUT:  # Errors are found by reading.
                self._read(sock)
        except OSError as error:
            self._core.lost(f"the connection broke ({reason_of(error)})", now_us())

    def _write(self, sock: socket.socket) -> None:
        if not self._rest:
            self._rest = memoryview(self._next_output())
        with contextlib.suppress(BlockingIOError):
            while self._rest:
                self._rest = self._rest[sock.send(self._rest) :]
                if not self._rest and self._channel is not None:
                    # Bytes of TLS itself may have been before it.
                    self._rest = memoryview(self._next_output())

    def _next_output(self) -> bytes:
        """The next bytes to send; none before a handshake of TLS is complete."""
        channel = self._channel
        if channel is None:
            return self._core.output()
        output = self._core.output() if channel.established else b""
        return channel.encrypt(output) if output else b""

    def _read(self, sock: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError):
            chunk = sock.recv(READ_BYTES)
            if chunk and self._channel is not None:
                self._decrypt(chunk, self._channel, sock)
            elif chunk:
                self._core.receive(chunk, now_us())
            elif self._channel is not None and not self._channel.established:
                self._core.lost(CUT_HANDSHAKE, now_us(), SEE_LOG)
            else:
                self._core.lost("the daemon is gone", now_us())

    def _decrypt(self, chunk: bytes, channel: EncryptedChannel, sock: socket.socket) -> None:
        """Handles the frames in bytes of TLS; there are none while the handshake lasts."""
        was_ready = channel.established
        try:
            data = channel.receive(chunk)
        except ChannelRefused as refused:
            with contextlib.suppress(OSError):
                sock.send(channel.take())  # An alert tells the daemon why.
            self._core.lost(refused.reason, now_us(), refused.remedy)
            return
        if out := channel.take():
            self._rest = memoryview(bytes(self._rest) + out)
        if channel.established and not was_ready:
            self._core.connection.encrypted(channel)
        if data:
            self._core.receive(data, now_us())

    # Connecting.

    def _dial(self, url: str) -> None:
        expect_blocks()
        try:
            where = parse_url(url)
            if where.tls:
                self._channel = self._core.open_channel(now_us())
                if self._channel is None:
                    return
            if where.peer is not None:
                self._socket = import_module("hopring.peer.attach").attach(where.peer)
                self._socket.setblocking(False)
                return
            if where.path:
                self._addresses = [(socket.AF_UNIX, where.path)]
            else:
                found = socket.getaddrinfo(where.host, where.port, type=socket.SOCK_STREAM)
                self._addresses = [(family, address) for family, _, _, _, address in found]
        except ChannelRefused as refused:
            self._core.lost(refused.reason, now_us(), refused.remedy)
            return
        except (OSError, UnicodeError) as error:  # UnicodeError: the host name is not valid.
            self._core.lost(reason_of(error), now_us(), NO_DAEMON)
            return
        self._try_next(None)

    def _try_next(self, error: OSError | None) -> None:
        """Starts to connect to the next address; if there is none, reports the last error."""
        while self._addresses:
            family, address = self._addresses.pop(0)
            sock = socket.socket(family, socket.SOCK_STREAM)
            # A Unix socket with a full listen backlog cannot be waited for in any other way.
            sock.settimeout(self._core.answer_seconds if family == socket.AF_UNIX else 0.0)
            try:
                sock.connect(address)
                sock.setblocking(False)
            except BlockingIOError:
                pass
            except OSError as refused:
                sock.close()
                error = refused
                continue
            self._socket, self._opening = sock, True
            return
        assert error is not None, "a host has an address"
        self._core.lost(reason_of(error), now_us(), NO_DAEMON)

    def _opened(self, sock: socket.socket) -> None:
        number = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if number:
            sock.close()
            self._socket = None
            self._try_next(OSError(number, os.strerror(number)))
            return
        self._opening = False
        if sock.family != socket.AF_UNIX:
            tune(sock)
        if self._channel is not None:
            self._rest = memoryview(self._channel.begin())
