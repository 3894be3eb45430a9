"""Users and grants at real daemons: each kind of identity, each refusal, bad credentials, audit and reload."""

import re
import shlex
import signal
import socket
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hopd.granted_daemon import ME, GrantedDaemon, granted_daemon, make_key
from tests.hopd.one_daemon import alone
from tests.hopd.served_cluster import run
from tests.support.free_ports import free_base_port

from hopring import NotAllowed, SessionClosed, sync
from hopring.config import dump_toml, local_config, parse_config
from hopring.credentials.client_identity import KeyIdentity
from hopring.credentials.files import CredentialError
from hopring.local.plan import with_ports
from hopring.session.frames import PREAMBLE, Frame, FrameKind, FrameReader
from hopring.session.protocol import (
    AuthRequest,
    ChallengeReply,
    HelloRequest,
    ProofRequest,
    decode_control,
    encode_control,
)

pytestmark = pytest.mark.slow


@pytest.fixture
def granted(tmp_path: Path) -> Iterator[GrantedDaemon]:
    with granted_daemon(tmp_path) as one:
        yield one


def test_each_kind_of_identity_gets_its_session(granted: GrantedDaemon) -> None:
    with sync.connect(granted.url, name="pricer", **granted.alice) as session:
        assert session.private_group == "#pricer#eu1"
    with sync.connect(granted.url, **granted.alice) as session:
        assert session.name.startswith("alice-c")
    with sync.connect(granted.url, name="robot", token=granted.token()) as session:
        session.multicast_wait("trades.eu", b"x")
    with sync.connect(granted.unix, name="local", priority=True) as session:
        session.join("anything")

    connects = [(line["identity"], line["name"]) for line in granted.audit() if line["event"] == "connect"]
    assert connects[0] == ("alice", "pricer")
    assert ("robot", "robot") in connects
    assert (ME, "local") in connects
    assert (granted.directory / "audit.jsonl").stat().st_mode & 0o777 == 0o600


def test_each_refusal_is_an_error_with_fields_and_the_session_goes_on(granted: GrantedDaemon) -> None:
    with (
        sync.connect(granted.unix, name="local") as local,
        sync.connect(granted.url, name="pricer", **granted.alice) as alice,
    ):
        local.join("trades.closed")
        local.join("hidden")
        for call, name in (
            (lambda: alice.join("secret"), "secret"),
            (lambda: alice.multicast_wait("hidden", b"no"), "hidden"),
            (lambda: alice.multicast_wait(["trades.eu", "trades.closed"], b"no"), "trades.closed"),
            (lambda: alice.multicast_wait("#local#eu1", b"no"), "#local#eu1"),
            (lambda: alice.multicast_batch("trades.eu", [b"no"], app="other", batch=1), "other"),
            (lambda: alice.members("hidden"), "MembersPage"),
        ):
            with pytest.raises(NotAllowed) as caught:
                call()
            assert caught.value.name == name
            assert "[grants]" in caught.value.remedy
        assert [one.name for one in alice.groups()] == ["trades.closed"]
        alice.multicast("hidden", b"no")
        with pytest.raises(NotAllowed, match="hidden"):
            send_until_refused(alice, "trades.eu")
        alice.join("trades.eu")
        local.multicast_wait("hidden", b"end")
        got = [event.data for event in local.receive_many(max_wait_seconds=0.5) if hasattr(event, "data")]
        assert got == [b"end"]

    refused = {(line["request"], line["subject"]) for line in granted.audit() if line["event"] == "refused"}
    expected = {("join", "secret"), ("send", "hidden"), ("send", "trades.closed"), ("send", "other")}
    assert expected | {("members", "hidden")} <= refused


def send_until_refused(session: sync.Session, group: str) -> None:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        session.multicast(group, b"one of these calls raises the refusal of an earlier message")
        time.sleep(0.01)


def test_a_name_of_another_identity_priority_and_a_client_without_credentials(granted: GrantedDaemon) -> None:
    with pytest.raises(NotAllowed, match="pricer"):
        sync.connect(granted.unix, name="pricer")
    with pytest.raises(NotAllowed, match="priority"):
        sync.connect(granted.url, name="pricer", priority=True, **granted.alice)
    with pytest.raises(NotAllowed, match="connect with user= and key="):
        sync.connect(granted.url, name="pricer")


def test_a_wrong_key_an_unknown_user_and_a_readable_key_are_refused(granted: GrantedDaemon) -> None:
    make_key(granted.directory, "mallory")
    mallory = granted.directory / "mallory.key"
    for user in ("alice", "mallory"):
        with pytest.raises(NotAllowed, match="not authenticated"):
            sync.connect(granted.url, name="pricer", user=user, key=mallory)
    mallory.chmod(0o644)
    with pytest.raises(CredentialError, match="chmod 600"):
        sync.connect(granted.url, name="pricer", user="alice", key=mallory)


def test_a_signed_nonce_cannot_be_replayed(granted: GrantedDaemon) -> None:
    identity = KeyIdentity("alice", granted.directory / "alice.key")
    hello = encode_control(HelloRequest("pricer", 1 << 20))

    def challenged(sock: socket.socket, reader: FrameReader) -> ChallengeReply:
        sock.sendall(PREAMBLE + encode_control(AuthRequest("key", "alice")))
        message = decode_control(read(sock, reader))
        assert isinstance(message, ChallengeReply)
        return message

    def read(sock: socket.socket, reader: FrameReader) -> Frame:
        while (frame := reader.next()) is None:
            chunk = sock.recv(4096)
            assert chunk
            reader.feed(chunk)
        return frame

    place = ("127.0.0.1", int(granted.url.rpartition(":")[2]))
    with socket.create_connection(place) as one, socket.create_connection(place) as two:
        readers = FrameReader(1 << 20), FrameReader(1 << 20)
        first, second = challenged(one, readers[0]), challenged(two, readers[1])
        assert first.nonce != second.nonce
        assert (first.cluster, first.daemon) == ("local", "eu1")
        proof: ProofRequest = identity.prove(first, b"")
        one.sendall(encode_control(proof) + hello)
        assert read(one, readers[0]).kind is FrameKind.WELCOME
        two.sendall(encode_control(proof) + hello)
        assert read(two, readers[1]).kind is FrameKind.REFUSED


def test_commands_end_with_their_code(granted: GrantedDaemon) -> None:
    key = ("--user", "alice", "--key", str(granted.directory / "alice.key"))
    assert run("groups", "--at", granted.url)[0] == 6
    assert run("groups", "--at", granted.url, *key)[0] == 0
    assert run("pub", "trades.eu", "x", "--at", granted.url, *key)[0] == 0
    code, _, text = run("pub", "hidden", "x", "--at", granted.url, *key)
    assert (code, "send 'hidden'" in text) == (6, True)
    assert run("members", "hidden", "--at", granted.url, *key)[0] == 6
    assert run("groups", "--at", granted.url, "--user", "alice", "--key", "/nowhere")[0] == 7


def test_the_commands_of_the_page_do_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
    by_tls, page = whole.split("## Clients by TLS")[1].split("## Users and grants")
    example, revoked = re.findall(r"```toml\n(.*?)```", page.split("## Audit")[0], re.DOTALL)
    assert list(tomllib.loads(revoked)["security"]) == ["revoked"]
    base = free_base_port(3)
    config = with_ports(local_config({"eu": 1}, base_port=base), "eu1", tls_port=base + 2)

    def commands(text: str) -> list[list[str]]:
        here = re.sub(r"hops://[a-z0-9.]+", f"hops://127.0.0.1:{base + 2}", text)
        return [
            shlex.split(one, comments=True)[1:] for one in re.findall(r"^    (hop .*)$", here, re.MULTILINE)
        ]

    own = commands(page.split("## Audit")[0])
    made = [words for words in own if words[0] == "keys"]
    sent = [words for words in own if words[0] == "pub"]
    assert (len(made), len(sent), len(own)) == (2, 3, 5)
    example = example.replace("[security]", '[security]\nkeys = "keys"')
    (tmp_path / "hop.toml").write_text(dump_toml(config) + example)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOP_URL", f"hop://127.0.0.1:{base + 1}")
    assert run("keys", "new", "--config", "hop.toml")[0] == 0
    assert [run(*words)[0] for words in made] == [0, 0]
    with alone(config, tmp_path, "eu1") as daemon:
        daemon.wait_for_log("view")
        assert [run(*words)[0] for words in sent] == [0, 6, 0]
        assert run("groups", "--at", f"hop+unix://{tmp_path / 'local.eu1.sock'}")[0] == 0
        (listing,) = commands(by_tls)
        monkeypatch.setenv("HOP_CERTIFICATE", "keys/users/alice.pem")
        assert run(*listing)[0] == 0


def test_a_reload_changes_the_rights_of_sessions_that_exist(granted: GrantedDaemon) -> None:
    with sync.connect(granted.url, name="pricer", **granted.alice) as alice:
        alice.join("trades.eu")
        file = granted.daemon.file
        file.write_text(file.read_text().replace('send = ["trades.*"]', "send = []"))
        parse_config(file.read_text())
        granted.daemon.process.send_signal(signal.SIGHUP)
        granted.daemon.wait_for_log("changed=grants")
        with pytest.raises(NotAllowed):
            alice.multicast_wait("trades.eu", b"x")
        file.write_text(file.read_text().replace('name = "alice"', 'name = "carol"'))
        granted.daemon.process.send_signal(signal.SIGHUP)
        granted.daemon.wait_for_log("changed=users")
        with pytest.raises(SessionClosed, match="not accepted any more"):
            list(alice)
    assert [line["changed"] for line in granted.audit() if line["event"] == "reload"] == ["grants", "users"]
