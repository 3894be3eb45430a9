"""Attacks on daemons that are processes of their own: key files, clients and their tokens, connections."""

import base64
import contextlib
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.request import urlopen

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.hopd.granted_daemon import ME, GrantedDaemon, write_secret
from tests.hopd.one_daemon import OneDaemon, alone
from tests.hostile.hopd_with_bug import DESCRIPTORS_VARIABLE
from tests.hostile.scenes import HOPD, Scenes
from tests.hostile.sealed_attacks import first_of_a_handshake
from tests.support.free_ports import free_base_port
from tests.support.keys import with_keys

from hopring import NotAllowed, sync
from hopring.client.events import Message
from hopring.config import LinkProtocol, local_config
from hopring.daemon.net.link_streams import PENDING_MAX
from hopring.sealing.keys import KEY_BYTES, _derive

NOBODY_UID = 65534
HALF_OPEN = 10_000
DESCRIPTORS_BESIDE = 24
"""What a daemon has open beside pending connections."""

MEMORY_BYTES_MAX = 48 << 20
FEW_DESCRIPTORS = 64

# Key files.


def _refused(scenes: Scenes, problem: str, spoil: Callable[[Path], None]) -> None:
    """A daemon whose key file was spoiled does not start, and its one line names the file and the problem."""
    place = scenes.place()
    with_keys(local_config({"eu": 1}), place)
    path = place / "keys" / "cluster.keys"
    spoil(path)
    ended = scenes.start_and_end(scenes.keyed_config(place / "keys"))

    assert ended.returncode == 7, ended.stderr
    assert problem in ended.stderr
    assert str(path) in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1


def _link(path: Path) -> None:
    path.rename(path.with_name("other"))
    path.symlink_to(path.with_name("other"))


def _short(path: Path) -> None:
    """A key of half the length, with the id that belongs to it."""
    secret = os.urandom(KEY_BYTES // 2)
    number = int.from_bytes(_derive(secret, b"hopring key id", 4), "little")
    path.write_text(f"use {number:08x} {base64.b64encode(secret).decode()}\n")


def short_key_file(scenes: Scenes) -> None:
    _refused(scenes, f"a cluster key has {KEY_BYTES} bytes, this one {KEY_BYTES // 2}", _short)


def empty_key_file(scenes: Scenes) -> None:
    _refused(scenes, "is empty", lambda path: os.truncate(path, 0))


def linked_key_file(scenes: Scenes) -> None:
    _refused(scenes, "is a symbolic link", _link)


def readable_key_file(scenes: Scenes) -> None:
    _refused(scenes, "has mode 0644", lambda path: path.chmod(0o644))


def key_file_of_another_user(scenes: Scenes) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give a file away")
    _refused(scenes, "is owned by", lambda path: os.chown(path, NOBODY_UID, NOBODY_UID))


# Tokens.

Claims = dict[str, object]


def _claims(**changes: object) -> Claims:
    whole = {"iss": "login.example", "aud": "local", "sub": "robot", "exp": time.time() + 60, **changes}
    return {key: value for key, value in whole.items() if value is not None}


def _token_refused(granted: GrantedDaemon, token: str, name: str = "robot") -> None:
    """A token is not accepted, and it is in no error, log or audit."""
    path = granted.directory / "token"
    write_secret(path, token.encode())
    with pytest.raises(NotAllowed, match="not authenticated") as caught:
        sync.connect(granted.url, name=name, token=path).close()
    assert token not in str(caught.value)
    assert token not in granted.daemon.log() + (granted.directory / "audit.jsonl").read_text()


def _claims_refused(scenes: Scenes, *wrong: Claims) -> None:
    granted = scenes.granted
    sync.connect(granted.url, name="robot", token=granted.token()).close()
    for changes in wrong:
        _token_refused(granted, jwt.encode(_claims(**changes), granted.login, "EdDSA"))


def expired_token(scenes: Scenes) -> None:
    _claims_refused(scenes, {"exp": time.time() - 60}, {"exp": 1_000_000}, {"exp": None})


def token_not_yet_valid(scenes: Scenes) -> None:
    _claims_refused(scenes, {"nbf": time.time() + 600}, {"nbf": 10**11})


def token_of_a_foreign_issuer(scenes: Scenes) -> None:
    _claims_refused(scenes, {"iss": "elsewhere.example"}, {"iss": None})
    _token_refused(scenes.granted, jwt.encode(_claims(), Ed25519PrivateKey.generate(), "EdDSA"))


def token_for_somebody_else(scenes: Scenes) -> None:
    _claims_refused(scenes, {"aud": "another"}, {"sub": None}, {"sub": "anonymous"})
    # A user of the host may have any name but those of others, if the kernel says that it is that user.
    _token_refused(scenes.granted, jwt.encode(_claims(sub=ME), scenes.granted.login, "EdDSA"), "anything")


def token_without_algorithm(scenes: Scenes) -> None:
    _token_refused(scenes.granted, jwt.encode(_claims(), "", "none"))


def token_of_a_shared_secret(scenes: Scenes) -> None:
    """The public key, which everybody may know, as the secret of an HMAC; and another curve."""
    line = (scenes.granted.directory / "login.pub").read_bytes().split()[1]
    _token_refused(scenes.granted, jwt.encode(_claims(), line.ljust(64), "HS256"))
    _token_refused(scenes.granted, jwt.encode(_claims(), generate_private_key(SECP256R1()), "ES256"))


# Rights of clients.


def hello_without_credentials(scenes: Scenes) -> None:
    with pytest.raises(NotAllowed, match="connect with user= and key="):
        sync.connect(scenes.granted.url, name="anything").close()


def name_without_right(scenes: Scenes) -> None:
    granted = scenes.granted
    with pytest.raises(NotAllowed, match="pricer"):
        sync.connect(granted.unix, name="pricer").close()
    with pytest.raises(NotAllowed, match="robot"):
        sync.connect(granted.url, name="robot", **granted.alice).close()


def join_without_right(scenes: Scenes) -> None:
    granted = scenes.granted
    with sync.connect(granted.url, name="pricer", **granted.alice) as alice:
        with pytest.raises(NotAllowed, match="secret"):
            alice.join("secret")
        with sync.connect(granted.unix, name="local") as local:
            local.join("secret")
            assert [one.name for one in local.members("secret").members] == ["local"]


def _heard(session: sync.Session) -> list[bytes]:
    """The messages of a session up to its own last one."""
    session.multicast_wait("trades.closed", b"end")
    got: list[bytes] = []
    while b"end" not in got:
        got += [event.data for event in session.receive_many() if isinstance(event, Message)]
    return got


def send_without_right(scenes: Scenes) -> None:
    granted = scenes.granted
    with (
        sync.connect(granted.unix, name="local") as local,
        sync.connect(granted.url, name="pricer", **granted.alice) as alice,
    ):
        local.join("trades.closed")
        for groups in ("trades.closed", ["trades.eu", "trades.closed"], "#local#eu1"):
            with pytest.raises(NotAllowed):
                alice.multicast_wait(groups, b"no")
        assert _heard(local) == [b"end"]


def list_without_right(scenes: Scenes) -> None:
    granted = scenes.granted
    with (
        sync.connect(granted.unix, name="local") as local,
        sync.connect(granted.url, name="pricer", **granted.alice) as alice,
    ):
        local.join("hidden")
        local.join("trades.eu")
        assert [one.name for one in alice.groups()] == ["trades.eu"]
        with pytest.raises(NotAllowed):
            alice.members("hidden")


def app_without_right(scenes: Scenes) -> None:
    granted = scenes.granted
    with (
        sync.connect(granted.unix, name="local") as local,
        sync.connect(granted.url, name="pricer", **granted.alice) as alice,
    ):
        local.join("trades.closed")
        local.join("trades.eu")
        alice.multicast_batch("trades.eu", [b"own"], app="detector", batch=1)
        with pytest.raises(NotAllowed, match="foreign"):
            alice.multicast_batch("trades.eu", [b"no"], app="foreign", batch=1)
        assert _heard(local) == [b"own", b"end"]


# Connections.


def _descriptors(daemon: OneDaemon) -> int:
    return len(os.listdir(f"/proc/{daemon.process.pid}/fd"))


def _memory_bytes(daemon: OneDaemon) -> int:
    pages = int(Path(f"/proc/{daemon.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _wait_for_the_end(connection: socket.socket) -> None:
    with connection, contextlib.suppress(ConnectionError):
        while connection.recv(1 << 16):
            pass


def _close_all(connections: Iterable[socket.socket]) -> None:
    for one in connections:
        one.close()


def half_open_handshakes(scenes: Scenes) -> None:
    """Ten thousand connections to a TCP link that begin a handshake; then a real neighbour comes."""
    place = scenes.place()
    config = with_keys(
        local_config({"eu": 1, "us": 1}, base_port=free_base_port(4), protocol=LinkProtocol.TCP), place
    )
    us1 = config.daemons[config.daemon_id("us1")]
    first = first_of_a_handshake()
    held: deque[socket.socket] = deque()
    with (
        alone(config, place, "us1", module=HOPD, environment=scenes.environment) as victim,
        contextlib.ExitStack() as ends,
    ):
        ends.callback(_close_all, held)
        victim.wait_for_log("size=1")
        memory_bytes = _memory_bytes(victim)
        for count in range(HALF_OPEN):
            one = socket.create_connection((us1.address, us1.port), timeout=60)
            held.append(one)
            with contextlib.suppress(ConnectionError):
                one.sendall(first[: count % len(first)] if count % 8 else first)
            if count % 50 == 0:
                assert _descriptors(victim) < PENDING_MAX + DESCRIPTORS_BESIDE
            if len(held) > PENDING_MAX + 32:
                # The daemon closes the oldest of them; whoever does not wait fills only the listen backlog.
                _wait_for_the_end(held.popleft())
        assert _descriptors(victim) < PENDING_MAX + DESCRIPTORS_BESIDE
        assert _memory_bytes(victim) < memory_bytes + MEMORY_BYTES_MAX
        with alone(config, place, "eu1") as neighbour:
            neighbour.wait_for_log("size=2")
            victim.wait_for_log("size=2")


def no_descriptors_left(scenes: Scenes) -> None:
    """Clients take all the descriptors that they can get: metrics and links have theirs."""
    place, page = scenes.place(), free_base_port(1)
    config = local_config({"eu": 1, "us": 1}, base_port=free_base_port(4), protocol=LinkProtocol.TCP)
    port = config.daemons[0].client_port
    environment = {**scenes.environment, DESCRIPTORS_VARIABLE: str(FEW_DESCRIPTORS)}
    with (
        alone(config, place, "eu1", "--metrics", str(page), module=HOPD, environment=environment) as eu1,
        contextlib.ExitStack() as held,
    ):
        eu1.wait_for_log("size=1")
        for _ in range(2 * FEW_DESCRIPTORS):
            held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
        eu1.wait_for_log("client_delayed")
        with urlopen(f"http://127.0.0.1:{page}/healthz", timeout=60) as answer:
            assert answer.read().startswith(b"ok")
        before = _cpu_seconds(eu1)
        time.sleep(1.0)
        assert _cpu_seconds(eu1) - before < 0.5, "accepting without descriptors does not spin"
        with alone(config, place, "us1") as us1:
            us1.wait_for_log("size=2")
            eu1.wait_for_log("size=2")
        assert "raise the limit of open files" in eu1.log()
        held.close()
        with sync.connect(f"hop://127.0.0.1:{port}", name="anna") as anna:
            assert anna.daemon == "eu1"


def _cpu_seconds(daemon: OneDaemon) -> float:
    """The processor time that a daemon has used."""
    fields = Path(f"/proc/{daemon.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
