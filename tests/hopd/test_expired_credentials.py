"""Sessions of tokens at a real daemon: they end with their token, and come back with the next one."""

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hopd.granted_daemon import GrantedDaemon, granted_daemon
from tests.hopd.served_cluster import SECONDS_MAX, run

from hopring import Reconnected, SessionClosed, connect, sync
from hopring.daemon.clients.authentication import LEEWAY_SECONDS

pytestmark = pytest.mark.slow


@pytest.fixture
def granted(tmp_path: Path) -> Iterator[GrantedDaemon]:
    with granted_daemon(tmp_path) as one:
        yield one


def test_a_session_ends_with_its_token_and_says_so(granted: GrantedDaemon) -> None:
    soon = int(time.time()) - LEEWAY_SECONDS + 4
    session = sync.connect(granted.url, name="robot", token=granted.token(exp=soon), reconnect=False)
    session.multicast_wait("trades.eu", b"x")
    with pytest.raises(SessionClosed, match="credentials expired; put a new token") as caught:
        session.receive(timeout_seconds=SECONDS_MAX)
    assert time.time() >= soon + LEEWAY_SECONDS
    assert caught.value.reason == "credentials expired"
    granted.daemon.wait_for_log('ended="credentials expired"')


@pytest.mark.parametrize("shell", ["asyncio", "blocking"])
def test_a_session_comes_back_with_the_token_that_is_in_the_file_by_then(
    granted: GrantedDaemon, shell: str
) -> None:
    def token() -> Path:
        return granted.token(exp=int(time.time()) - LEEWAY_SECONDS + 4)

    async def story() -> None:
        async with asyncio.timeout(SECONDS_MAX), connect(granted.url, name="robot", token=token()) as session:
            granted.token()
            back = await session.receive()
            assert isinstance(back, Reconnected)
            assert back.gap.reason == "credentials expired"
            await session.multicast_wait("trades.eu", b"x")

    if shell == "asyncio":
        asyncio.run(story())
        return
    with sync.connect(granted.url, name="robot", token=token()) as session:
        granted.token()
        assert isinstance(session.receive(timeout_seconds=SECONDS_MAX), Reconnected)
        session.multicast_wait("trades.eu", b"x")


def test_a_session_does_not_come_back_with_the_expired_token(granted: GrantedDaemon) -> None:
    soon = int(time.time()) - LEEWAY_SECONDS + 3
    session = sync.connect(granted.url, name="robot", token=granted.token(exp=soon))
    with pytest.raises(SessionClosed, match=r"credentials expired, and no way back.*not authenticated"):
        session.receive(timeout_seconds=SECONDS_MAX)


def test_the_doctor_connects_with_credentials(granted: GrantedDaemon) -> None:
    words = ("doctor", str(granted.daemon.file), "--at", f"eu1={granted.url}", "--json")
    checks = json.loads(run(*words)[1])["checks"]
    assert [one for one in checks if "could not be asked" in one["text"]]
    key = ("--user", "alice", "--key", str(granted.directory / "alice.key"))
    checks = json.loads(run(*words, *key)[1])["checks"]
    assert not [one for one in checks if "could not be asked" in one["text"]]
