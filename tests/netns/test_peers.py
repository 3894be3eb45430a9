"""Six peers on three hosts, sealed, one without multicast: loss, a kill, and a split with a majority."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.netns.namespace_lab import Lab
from tests.peers.peer_processes import PROGRAM, PeerProgram
from tests.support.waiting import until

from hopring.check.rmp.client_form import check_rings
from hopring.check.rmp.peer_judge import check_peers
from hopring.check.rmp.peer_trace import peer_histories, read_peer_rows
from hopring.local.peer_processes import ask_peer, note_crash

pytestmark = [pytest.mark.netns, pytest.mark.slow]

HOSTS = {"a": "10.79.0.1", "b": "10.79.0.2", "c": "10.79.0.3"}
NAMES = ("a1", "a2", "b1", "b2", "c1", "c2")
MESSAGES = 20
VIEW_SECONDS = 60.0


def place(name: str) -> str:
    """The address and the port of a peer."""
    return f"{HOSTS[name[0]]}:{5000 + int(name[1])}"


class Peers:
    """The peers of the lab, as processes on their hosts."""

    def __init__(self, lab: Lab, directory: Path) -> None:
        self.directory = directory
        self.programs: dict[str, PeerProgram] = {}
        self._lab = lab
        keys = directory / "peers.key"
        command = [sys.executable, "-m", "hopring.cli.main", "rmp", "key", str(keys)]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        self._common = f"?ttl=1&minimum=majority&keys={keys}"

    def start(self, name: str) -> None:
        """Starts a peer; the first one founds the ring, and the last one hears no multicast."""
        more = "&found=yes" if name == "a1" else ""
        if name == "c2":
            more = f"&multicast=no&via={place('a1')},{place('c1')}"
        url = f"rmp://{place(name)}/lab{self._common}{more}"
        url += f"&admin={self._admin(name)}&trace={self.directory / name}.jsonl"
        with self._lab.on(name[0]):
            process = subprocess.Popen(
                [sys.executable, str(PROGRAM), url, name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        self.programs[name] = PeerProgram(process, name)
        self.programs[name].until("joined", name)

    def _admin(self, name: str) -> Path:
        return self.directory / f"{name}.admin"

    def ask(self, name: str, **request: object) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(ask_peer(self._admin(name), request))
        assert "error" not in answer, answer
        return answer

    def lose(self, share: float) -> None:
        for name in self.programs:
            self.ask(name, verb="lose", loss=share)

    def kill(self, name: str) -> None:
        status = self.ask(name, verb="status")
        gone = self.programs.pop(name)
        gone.process.kill()
        gone.process.wait()
        gone.end_reading()
        note_crash(self.directory / f"{name}.jsonl", status)

    def have_view(self, *names: str) -> None:
        for name in names:
            peer = self.programs[name]
            until(
                lambda peer=peer: (peer.of("members") or [[]])[-1] == sorted(names),  # type: ignore[misc]
                lambda peer=peer: (peer.name, peer.lines[-5:]),  # type: ignore[misc]
                VIEW_SECONDS,
            )

    def end(self) -> None:
        for peer in self.programs.values():
            assert peer.process.stdin is not None
            peer.process.stdin.close()
        for peer in self.programs.values():
            try:
                peer.process.wait(60)
            except subprocess.TimeoutExpired:
                peer.process.kill()
                peer.process.wait()
            peer.end_reading()


@contextmanager
def peers_in(lab: Lab, directory: Path) -> Iterator[Peers]:
    lab.host(*HOSTS)
    lab.switch("sw", {host: [f"{address}/24"] for host, address in HOSTS.items()})
    for host in HOSTS:
        lab.ip(host, "link", "set", "eth0", "up")
    peers = Peers(lab, directory)
    try:
        yield peers
    finally:
        peers.end()


def test_six_peers_on_three_hosts_go_through_loss_a_kill_and_a_split(lab: Lab, tmp_path: Path) -> None:
    with peers_in(lab, tmp_path) as peers:
        for name in NAMES:
            peers.start(name)
        peers.have_view(*NAMES)
        assert [one["hears_multicast"] for one in peers.ask("c2", verb="status")["groups"]] == [False]

        peers.lose(0.1)
        for number in range(MESSAGES):
            for name, peer in peers.programs.items():
                peer.tell(f"{name} {number}")
        wanted = MESSAGES * len(NAMES)
        for peer in peers.programs.values():
            until(lambda peer=peer: len(peer.of("data")) >= wanted, seconds=VIEW_SECONDS)  # type: ignore[misc]
        peers.lose(0.0)
        for name in ("a1", "b1", "c2"):
            data = peers.programs[name].of("data")
            for source in NAMES:
                mine = [one for one in data if one.startswith(source)]
                assert mine == [f"{source} {number}" for number in range(MESSAGES)]

        peers.have_view(*NAMES)  # A busy machine may have taken one of them for dead.
        peers.kill("b2")
        peers.have_view("a1", "a2", "b1", "c1", "c2")

        lab.exec("sw", "bridge", "link", "set", "dev", "p2", "state", "0")
        peers.have_view("a1", "a2", "b1")
        for name in ("c1", "c2"):
            until(lambda name=name: peers.ask(name, verb="status")["groups"][0]["suspended"])  # type: ignore[misc]
        lab.exec("sw", "bridge", "link", "set", "dev", "p2", "state", "3")
        peers.have_view("a1", "a2", "b1", "c1", "c2")
        peers.programs["c2"].tell("safe")
        peers.programs["c2"].until("receipt", 5)

    rows = [row for name in NAMES for row in read_peer_rows((tmp_path / f"{name}.jsonl").open("rb"))]
    history = peer_histories(rows, {place(name): name for name in NAMES})["g"]
    broken = [one for one in (*check_peers(history, False), *check_rings(history, False)) if not one]
    assert not broken
