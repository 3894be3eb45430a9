"""Starts the peer of a session: in a thread of the program, or in a process of its own.

Either is at the other end of a pair of sockets. It ends after its session: a peer notices that its end of the
pair is closed, also if the program was killed. A program that ends without closing its sessions has them closed
here, and waits for their peers as long as others may need them.
"""

import atexit
import contextlib
import os
import select
import socket
import subprocess
import sys
import threading
from typing import Final

from hopring.client.peer_url import PeerUrl
from hopring.daemon.loop.event_loop import Loop
from hopring.errors import ChannelRefused
from hopring.peer.peer import SERVE_US_MAX, Peer

START_SECONDS: Final = 20.0
"""How long a process may take to begin; a busy machine imports slowly."""

READY: Final = b"ready\n"

_running: Final[dict[threading.Thread, socket.socket]] = {}
_lock: Final = threading.Lock()


def attach(url: PeerUrl) -> socket.socket:
    """Starts a peer; returns the session's end of the connection. ChannelRefused says why there is none."""
    if url.host == "loop":
        raise ChannelRefused("host=loop needs asyncio", "use hopring.connect, or host=thread or host=process")
    return _attach_process(url) if url.host == "process" else _attach_thread(url)


def _attach_thread(url: PeerUrl) -> socket.socket:
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
    thread = threading.Thread(target=_run, args=(loop, peer), name="hopring-peer", daemon=True)
    with _lock:
        # Not the session's own object, which the session may close: a copy of its descriptor.
        _running[thread] = socket.socket(fileno=os.dup(its.fileno()))
    thread.start()
    return mine


def _run(loop: Loop, peer: Peer) -> None:
    try:
        loop.run()
    finally:
        peer.close()
        loop.close()
        with _lock:
            copy = _running.pop(threading.current_thread(), None)
        if copy is not None:
            copy.close()


def _end_all() -> None:
    """Called when the program ends: the peers see the ends of their sessions, and have time to leave."""
    with _lock:
        running = list(_running.items())
    for _, copy in running:
        with contextlib.suppress(OSError):
            copy.shutdown(socket.SHUT_RD)
    for thread, _ in running:
        thread.join(2 * SERVE_US_MAX / 1_000_000)


atexit.register(_end_all)


def _attach_process(url: PeerUrl) -> socket.socket:
    mine, its = socket.socketpair()
    read_fd, write_fd = os.pipe()
    arguments = [sys.executable, "-m", "hopring.peer.child", str(its.fileno()), str(write_fd), url.text]
    try:
        subprocess.Popen(
            arguments, pass_fds=(its.fileno(), write_fd), stdin=subprocess.DEVNULL, start_new_session=True
        )
    except OSError as error:
        mine.close()
        os.close(read_fd)
        raise ChannelRefused(f"no process for the peer ({error.strerror})", "use host=thread") from None
    finally:
        its.close()
        os.close(write_fd)
    try:
        answer = _answer(read_fd)
    finally:
        os.close(read_fd)
    if answer != READY:
        mine.close()
        reason, _, remedy = answer.decode(errors="replace").partition("\n")
        raise ChannelRefused(reason or "the process of the peer has ended", remedy.strip() or "see its output")
    return mine


def _answer(fd: int) -> bytes:
    """All that the process says before it closes the pipe, or until START_SECONDS have passed."""
    answer = b""
    while select.select([fd], [], [], START_SECONDS)[0]:
        chunk = os.read(fd, 4096)
        if not chunk:
            break
        answer += chunk
    return answer
