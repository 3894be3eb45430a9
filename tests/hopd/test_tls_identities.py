"""Identities of clients by TLS: keys bound to the channel, certificates of users, and who is refused."""

import asyncio
import json
import signal
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.hopd.served_cluster import SECONDS_MAX, run
from tests.hopd.tls_daemon import Impostor, TlsDaemon, make_certificate, tls_daemon
from tests.support.keys import DAYS

from hopring import ConnectError, NotAllowed, Reconnected, SessionClosed, WrongValue, connect, sync
from hopring.client.connection import DaemonConnection, EncryptedChannel
from hopring.credentials import client_tls
from hopring.credentials.certificates import load_certificate
from hopring.credentials.directory import KeyDirectory, certificate_facts
from hopring.credentials.files import CredentialError

pytestmark = pytest.mark.slow

GRANTS = """
[[users]]
name = "alice"
key = "users/alice.pub"

[grants.alice]
names = ["pricer", "alice-*"]
join = ["trades.*"]
send = ["trades.*"]

[grants.bob]
names = ["bob"]
send = ["trades.*"]
"""


def granted(directory: Path, module: str = "hopring.daemon.hopd") -> Any:
    """A daemon with grants for alice, who has a key, and for bob, who has a certificate."""
    KeyDirectory(directory).add_user("alice")
    return tls_daemon(directory, more=GRANTS, module=module)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[TlsDaemon]:
    with granted(tmp_path) as one:
        one.keys.add_user_certificate("bob", datetime.now(UTC), DAYS)
        yield one


def alice(served: TlsDaemon) -> dict[str, Any]:
    return {"user": "alice", "key": served.directory / "users" / "alice.key", "ca": served.ca}


def bob(served: TlsDaemon) -> dict[str, Any]:
    return {"certificate": served.keys.user_path("bob", "pem"), "ca": served.ca}


def test_a_key_and_a_certificate_give_the_rights_of_their_user(served: TlsDaemon) -> None:
    with sync.connect(served.url, name="pricer", **alice(served)) as session:
        session.multicast_wait("trades.eu", b"x")
    with sync.connect(served.url, name="bob", **bob(served)) as session:
        session.multicast_wait("trades.eu", b"x")
        with pytest.raises(NotAllowed, match="join"):
            session.join("trades.eu")
    with pytest.raises(NotAllowed, match="pricer"):
        sync.connect(served.url, name="pricer", **bob(served))
    with pytest.raises(NotAllowed, match="connect with user= and key="):
        sync.connect(served.url, name="bob", ca=served.ca)


def test_a_certificate_gives_its_identity_to_an_asyncio_session_too(served: TlsDaemon) -> None:
    async def story() -> None:
        async with asyncio.timeout(SECONDS_MAX), connect(served.url, name="bob", **bob(served)) as session:
            await session.multicast_wait("trades.eu", b"x")

    asyncio.run(story())


def session_that_ends_soon(served: TlsDaemon, path: Path) -> sync.Session:
    """A session with a certificate of few seconds, or of more if the machine is too busy."""
    for seconds in (4, 16, 64):
        soon = datetime.now(UTC) + timedelta(seconds=seconds)
        make_certificate(served.keys, path, "bob", user=True, at=soon - timedelta(days=1))
        with suppress(ConnectError, NotAllowed):
            return sync.connect(served.url, name="bob", ca=served.ca, certificate=path)
    raise AssertionError("no session began")


def test_a_session_ends_with_its_certificate_and_comes_back_with_a_renewed_one(served: TlsDaemon) -> None:
    path = served.directory / "short.pem"
    with session_that_ends_soon(served, path) as session:
        make_certificate(served.keys, path, "bob", user=True)
        back = session.receive(timeout_seconds=SECONDS_MAX)
        assert isinstance(back, Reconnected)
        assert back.gap.reason == "credentials expired"
        session.multicast_wait("trades.eu", b"x")


def test_a_certificate_that_is_revoked_ends_its_session_at_once_and_begins_no_other(served: TlsDaemon) -> None:
    old, new = served.keys.user_path("bob", "pem"), served.directory / "new.pem"
    make_certificate(served.keys, new, "bob", user=True)
    file = served.directory / "hop.toml"
    digest = certificate_facts("bob", load_certificate(old)).sha256
    with (
        sync.connect(served.url, name="bob", ca=served.ca, certificate=old) as revoked,
        sync.connect(served.url, name="pricer", **alice(served)) as other,
    ):
        file.write_text(file.read_text().replace("[security]\n", f'[security]\nrevoked = ["{digest}"]\n'))
        served.daemon.process.send_signal(signal.SIGHUP)
        with pytest.raises(SessionClosed, match="the certificate of bob was revoked"):
            revoked.receive(timeout_seconds=SECONDS_MAX)
        other.multicast_wait("trades.eu", b"x")
    with pytest.raises(NotAllowed, match="its certificate was revoked"):
        sync.connect(served.url, name="bob", ca=served.ca, certificate=old)
    with sync.connect(served.url, name="bob", ca=served.ca, certificate=new) as renewed:
        renewed.multicast_wait("trades.eu", b"x")
    served.daemon.wait_for_log("changed=security.revoked")


def test_the_doctor_asks_by_tls_if_it_is_given_the_authority(served: TlsDaemon) -> None:
    words = ("doctor", str(served.directory / "hop.toml"), "--json", "--all", "--at", f"eu1={served.url}")
    _, out, _ = run(*words)
    assert "ca: missing for hops://" in out
    key = ("--user", "alice", "--key", str(served.directory / "users" / "alice.key"))
    _, out, text = run(*words, "--ca", str(served.ca), *key)
    assert "runs with this configuration" in out, text
    assert f"clients' TLS port {served.port} of 127.0.0.1 is the running daemon's" in out


@pytest.mark.parametrize("whose", ["a daemon", "expired", "another cluster"])
def test_other_certificates_of_clients_are_refused_and_logged(
    served: TlsDaemon, tmp_path: Path, whose: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The library refuses such files itself: what the daemon does is tested with a client that does not.
    monkeypatch.setattr(client_tls, "user_named", lambda _uris, _cluster: "bob")
    path = tmp_path / "shown.pem"
    if whose == "a daemon":
        make_certificate(served.keys, path, "eu2")
        logged = "its certificate is for hopring://local/eu2, not for a user of local"
    elif whose == "expired":
        make_certificate(served.keys, path, "bob", user=True, at=datetime.now(UTC) - timedelta(days=9))
        logged = "its certificate is refused: certificate has expired"
    else:
        other = KeyDirectory(tmp_path / "other")
        other.create("local", [], datetime.now(UTC), 30, 30)
        make_certificate(other, path, "bob", user=True)
        logged = "its certificate is refused: "
    with pytest.raises(ConnectError) as caught:
        sync.connect(served.url, name="bob", ca=served.ca, certificate=path, timeout_seconds=SECONDS_MAX)

    assert not isinstance(caught.value, NotAllowed)
    served.daemon.wait_for_log(f'reason="TLS: {logged}')


def test_credentials_of_two_kinds_and_files_that_others_can_read_are_refused(served: TlsDaemon) -> None:
    with pytest.raises(WrongValue, match="give one kind of credentials"):
        sync.connect(served.url, **{**alice(served), **bob(served)})
    path = make_certificate(served.keys, served.directory / "shown.pem", "eu2")
    with pytest.raises(CredentialError, match="is not a certificate of a user of local"):
        sync.connect(served.url, ca=served.ca, certificate=path)
    served.keys.user_path("bob", "pem").chmod(0o644)
    with pytest.raises(CredentialError, match="chmod 600"):
        sync.connect(served.url, **bob(served))


def forget_binding(_connection: DaemonConnection, _channel: EncryptedChannel) -> None:
    """The planted fault at the client: its signature is for any channel."""


def relayed(served: TlsDaemon, path: Path) -> None:
    """Connects as alice through somebody who has another certificate for the same daemon."""
    with Impostor(make_certificate(served.keys, path, "eu1"), served.port) as impostor:
        session = sync.connect(impostor.url, name="pricer", timeout_seconds=SECONDS_MAX, **alice(served))
        assert impostor.passed
        session.close()


def test_a_challenge_cannot_be_relayed_by_somebody_with_another_certificate(
    served: TlsDaemon, tmp_path: Path
) -> None:
    with pytest.raises(NotAllowed, match="not authenticated"):
        relayed(served, tmp_path / "other.pem")
    sync.connect(served.url, name="pricer", **alice(served)).close()


@pytest.mark.interpreted
def test_without_the_binding_the_relay_would_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DaemonConnection, "encrypted", forget_binding)
    with granted(tmp_path, module="tests.hopd.hopd_without_binding") as served:
        relayed(served, tmp_path / "other.pem")


def test_a_signature_for_a_tls_channel_is_void_in_the_clear_and_the_other_way_round(
    served: TlsDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync.connect(served.clear_url, name="pricer", **alice(served)).close()
    monkeypatch.setattr(DaemonConnection, "encrypted", forget_binding)
    with pytest.raises(NotAllowed, match="not authenticated"):
        sync.connect(served.url, name="pricer", **alice(served))


def test_commands_make_show_check_and_use_certificates_of_users(served: TlsDaemon) -> None:
    root = str(served.keys.root)
    assert run("keys", "user", "carol", root, "--certificate", "--days", "90")[0] == 0
    code, _, text = run("keys", "user", "carol", root, "--certificate")
    assert (code, "is there already" in text) == (1, True)
    assert run("keys", "user", "carol", root, "--certificate", "--renew")[0] == 0
    shown = json.loads(run("keys", "show", root, "--json")[1])
    assert [one["uris"] for one in shown["user_certificates"] if one["name"] == "carol"] == [
        ["hopring://local/users/carol"]
    ]
    assert run("keys", "check", root)[0] == 0
    assert run("keys", "user", "anonymous", root, "--certificate")[0] == 1
    path = str(served.keys.user_path("bob", "pem"))
    words = ("--at", served.url, "--ca", str(served.ca), "--certificate", path)
    assert run("pub", "trades.eu", "x", "--name", "bob", *words)[0] == 0
    assert run("pub", "hidden", "x", "--name", "bob", *words)[0] == 6
