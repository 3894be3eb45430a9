"""Spread clients: one sender and three receivers at three daemons of one site, on loopback; Agreed, 1 KB.

The sender writes one message at a time, as the C library does; receivers count bytes. All share the machine's
processors with the daemons, so the CPU time of each process per message is reported too.

    python -m hopring.bench.suite.spread [SECONDS]
"""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from statistics import median, quantiles
from struct import pack, unpack_from
from tempfile import TemporaryDirectory
from typing import Final

from hopring.config import dump_toml, local_config

BASE_PORT: Final = 24_840
DAEMONS: Final = ("d1", "d2", "d3")
PORTS: Final = dict(zip(DAEMONS, range(BASE_PORT + 2, BASE_PORT + 11, 3), strict=True))
BODY_BYTES: Final = 1024
FRAME_BYTES: Final = 48 + 32 + BODY_BYTES
SECONDS: Final = 5.0
WARM_S: Final = 1.0
PROBES: Final = 2_000
READ_BYTES: Final = 1 << 18
_MARKER: Final = 0x80000080
_AGREED: Final = 0x10
_JOIN: Final = 0x10000
_NULL: Final = b"NULL".ljust(90, b"\0")


def connect(daemon: str, user: str) -> tuple[socket.socket, str]:
    """A session without membership, and its private group."""
    sock = socket.create_connection(("127.0.0.1", PORTS[daemon]))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(bytes([5, 0, 1, 0, len(user)]) + user.encode())
    read(sock, read(sock, 1)[0])
    sock.sendall(_NULL)
    return sock, read(sock, read(sock, 5)[4]).decode()


def read(sock: socket.socket, size: int) -> bytes:
    """Reads exactly this many bytes."""
    found = b""
    while len(found) < size:
        chunk = sock.recv(size - len(found))
        assert chunk, "the daemon ended the session"
        found += chunk
    return found


def frame(word: int, name: str, group: str, body: bytes = b"") -> bytes:
    """A frame as a C client on this machine writes it."""
    head = pack("<I32sIII", word | _MARKER, name.encode(), 1, _MARKER, len(body))
    return head + group.encode().ljust(32, b"\0") + body


def receive(daemon: str, group: str) -> None:
    """Joins, reports that with its first message, and then prints its count ten times a second."""
    sock, name = connect(daemon, f"r{daemon}")
    sock.sendall(frame(_JOIN, name, group) + frame(_AGREED, name, group, bytes(BODY_BYTES)))
    buffer = bytearray(READ_BYTES)
    total, said_at = 0, 0.0
    while size := sock.recv_into(buffer):
        total += size
        now = time.monotonic()
        if now - said_at > 0.1:
            said_at = now
            print(now, total // FRAME_BYTES, flush=True)
    sys.exit("the daemon ended the session")


def send(group: str) -> None:
    """Sends as fast as it can."""
    sock, name = connect("d1", "sender")
    message = frame(_AGREED, name, group, bytes(BODY_BYTES))
    while True:
        sock.sendall(message)


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def flood(daemons: dict[str, int], seconds: float) -> None:
    """Measures messages per second at all receivers."""
    module = [sys.executable, "-m", "hopring.bench.suite.spread"]
    clients = {
        f"receiver {name}": subprocess.Popen(
            [*module, "receive", name, "bench"], stdout=subprocess.PIPE, text=True
        )
        for name in DAEMONS
    }
    try:
        for process in clients.values():
            assert process.stdout is not None, "figures come through a pipe"
            process.stdout.readline()
        clients["sender"] = subprocess.Popen([*module, "send", "bench"], text=True)
        time.sleep(WARM_S)
        everybody = {f"daemon {name}": pid for name, pid in daemons.items()}
        everybody |= {name: process.pid for name, process in clients.items()}
        before = {name: cpu_seconds(pid) for name, pid in everybody.items()}
        begin = time.monotonic()
        time.sleep(seconds)
        after = {name: cpu_seconds(pid) for name, pid in everybody.items()}
        end = time.monotonic()
    finally:
        for process in clients.values():
            process.terminate()
    rates = [rate_of(clients[f"receiver {name}"].communicate()[0], begin, end) for name in DAEMONS]
    taken = {name: (after[name] - before[name]) / (end - begin) * 1e6 / min(rates) for name in everybody}
    figures = {"messages_per_s": round(min(rates)), "each_receiver": [round(rate) for rate in rates]}
    cpu = {name: round(one, 1) for name, one in taken.items()} | {"all": round(sum(taken.values()), 1)}
    print(json.dumps({"case": "flood of 1 KB", **figures, "cpu_us_per_message": cpu}), flush=True)


def rate_of(lines: str, begin: float, end: float) -> float:
    """The rate of a receiver, from its output between two times."""
    rows = [(float(at), int(count)) for at, count in (line.split() for line in lines.splitlines())]
    inside = [row for row in rows if begin <= row[0] <= end]
    assert len(inside) > 1, "the receiver was there all the time"
    return (inside[-1][1] - inside[0][1]) / (inside[-1][0] - inside[0][0])


def round_trips(case: str, answers_at: str) -> None:
    """Round trips of single messages: to the sender itself, or to a client elsewhere and back."""
    one, mine = connect("d1", f"p{answers_at}")
    other, theirs = connect(answers_at, f"e{answers_at}")
    there = mine if answers_at == "d1" else theirs
    ask, answer = (
        frame(_AGREED, mine, there, bytes(BODY_BYTES)),
        frame(_AGREED, theirs, mine, bytes(BODY_BYTES)),
    )
    child = 0 if answers_at == "d1" else os.fork()
    if answers_at != "d1" and not child:
        while other.recv_into(bytearray(FRAME_BYTES), FRAME_BYTES, socket.MSG_WAITALL) == FRAME_BYTES:
            other.sendall(answer)
        os._exit(0)
    other.close()
    taken = []
    for _ in range(PROBES):
        begin = time.perf_counter()
        one.sendall(ask)
        (size,) = unpack_from("<I", one.recv(FRAME_BYTES, socket.MSG_WAITALL), 44)
        taken.append((time.perf_counter() - begin) * 1e6)
        assert size == BODY_BYTES, "whole messages come back"
    one.close()
    if child:
        os.kill(child, 15)
        os.waitpid(child, 0)
    figures = {"p50_us": round(median(taken)), "p99_us": round(quantiles(taken, n=100)[-1])}
    print(json.dumps({"case": case, **figures}), flush=True)


def main(seconds: float) -> None:
    """Starts three daemons and prints the figures."""
    with TemporaryDirectory() as directory:
        file = Path(directory) / "hop.toml"
        file.write_text(dump_toml(local_config({"d": 3}, base_port=BASE_PORT, spread=True)))
        logs = [Path(directory) / f"{name}.log" for name in DAEMONS]
        daemons = {}
        for name, log in zip(DAEMONS, logs, strict=True):
            command = [sys.executable, "-m", "hopring.daemon.hopd", str(file), "--name", name]
            command += ["--state", directory, "--spread-sockets", directory]
            with log.open("w") as stderr:
                daemons[name] = subprocess.Popen(command, stderr=stderr)
        try:
            while not all("size=3" in log.read_text() for log in logs):
                assert all(one.poll() is None for one in daemons.values()), logs[0].read_text()
                time.sleep(0.1)
            round_trips("round trip to itself", "d1")
            round_trips("round trip by a client at another daemon", "d2")
            flood({name: one.pid for name, one in daemons.items()}, seconds)
        finally:
            for one in daemons.values():
                one.terminate()
            for one in daemons.values():
                one.wait()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["receive", daemon, group]:
            receive(daemon, group)
        case ["send", group]:
            send(group)
        case words:
            main(float(words[0]) if words else SECONDS)
