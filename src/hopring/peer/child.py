"""A peer as a process of its own: `python -m hopring.peer.child SOCKET PIPE URL`, started by attach.py.

It says `ready` on the pipe, or why it cannot begin and what to do, and closes it. It ends after its session.
"""

import os
import signal
import socket
import sys
from typing import Final

from hopring.client.peer_url import parse_peer_url
from hopring.daemon.loop.event_loop import Loop
from hopring.errors import ChannelRefused
from hopring.peer.peer import Peer

READY: Final = b"ready\n"


def main(arguments: list[str]) -> int:
    """Serves one session; returns the exit code."""
    sock, pipe, url = socket.socket(fileno=int(arguments[0])), int(arguments[1]), arguments[2]
    sock.setblocking(False)
    # Ctrl-C is for the program: its peer ends after the session.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    loop = Loop()
    try:
        peer = Peer(loop, parse_peer_url(url), sock)
    except ChannelRefused as error:
        os.write(pipe, f"{error.reason}\n{error.remedy}".encode())
        os.close(pipe)
        return 1
    os.write(pipe, READY)
    os.close(pipe)
    loop.run()
    peer.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
