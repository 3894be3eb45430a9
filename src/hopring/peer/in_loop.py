"""A peer in the event loop of an asyncio program: no thread, and two wake-ups less for each message.

The peer's own loop is one descriptor: it is readable when a socket or a timer of the peer is. It is for
programs that never block: a peer that does not run holds up everybody's token.
"""

import asyncio
import socket

from hopring.client.peer_url import PeerUrl
from hopring.daemon.loop.event_loop import Loop
from hopring.errors import ChannelRefused
from hopring.peer.peer import Peer


def attach_in_loop(url: PeerUrl, running: asyncio.AbstractEventLoop) -> socket.socket:
    """Starts a peer in this event loop; returns the session's end of the connection."""
    mine, its = socket.socketpair()
    its.setblocking(False)
    loop = Loop()
    try:
        peer = Peer(loop, url, its)
    except ChannelRefused:
        mine.close()
        its.close()
        loop.close()
        raise
    guest = _Guest(loop, running)
    peer.ended = guest.end
    guest.turn()
    return mine


class _Guest:
    """Runs turns of one loop whenever another one finds it ready."""

    def __init__(self, loop: Loop, running: asyncio.AbstractEventLoop) -> None:
        self._loop, self._running = loop, running
        self._ended, self._reads = False, True
        running.add_reader(loop.fileno(), self.turn)

    def turn(self) -> None:
        """Serves what is ready, without sleeping."""
        if not self._ended and self._loop.serve():
            self._running.call_soon(self.turn)
        if self._ended and self._reads:
            self._reads = False
            self._running.remove_reader(self._loop.fileno())
            self._loop.close()

    def end(self) -> None:
        """The peer has ended, within a turn."""
        self._ended = True
