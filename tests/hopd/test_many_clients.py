"""A thousand sessions at one daemon, and one above its limit."""

import asyncio
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hopd.daemon_processes import DaemonProcesses
from tests.hopd.served_cluster import ServedCluster, data, take
from tests.support.free_ports import free_base_port

from hopring import ConnectError, Session, connect, sync
from hopring.config import local_config

pytestmark = pytest.mark.slow

SESSIONS = 1_000
SECONDS_MAX = 240.0


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedCluster]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2 * SESSIONS:
        pytest.skip(f"at most {hard} open files are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * SESSIONS), hard))
    config = local_config({"eu": 1}, base_port=free_base_port(2))
    arguments = ["--clients-max", str(SESSIONS)]
    with DaemonProcesses(config, tmp_path, module="hopring.daemon.hopd", arguments=arguments) as daemons:
        daemons.start()
        daemons.wait(daemons.together)
        yield ServedCluster(daemons, config)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_thousand_sessions_work_and_one_more_is_refused_without_harm_to_them(
    served: ServedCluster,
) -> None:
    url = served.url("eu1")

    async def open_one(at: int) -> Session:
        return await connect(url, name=f"s{at}", membership=False, timeout_seconds=SECONDS_MAX)

    async def story() -> None:
        async with asyncio.timeout(SECONDS_MAX):
            sessions = [await open_one(at) for at in range(SESSIONS)]
            with pytest.raises(ConnectError, match="too many clients; connect to another daemon, or later"):
                await connect(url, name="one-more", timeout_seconds=SECONDS_MAX)
            for session in sessions:
                await session.join("crowd")
            for at in range(5):
                await sessions[at].multicast("crowd", b"%d" % at)
            seen = [data(await take(session, 5)) for session in sessions]
            assert sorted(seen[0]) == [b"%d" % at for at in range(5)]
            assert all(one == seen[0] for one in seen)
            for at, session in enumerate(sessions):
                await session.multicast(f"#s{(at + 1) % SESSIONS}#eu1", b"%d" % at)
            for at, session in enumerate(sessions):
                assert data(await take(session, 1)) == [b"%d" % ((at - 1) % SESSIONS)]
            await sessions[0].close()
            again = await connect(url, name="one-more", timeout_seconds=SECONDS_MAX)
            for session in [again, *sessions[1:]]:
                session.abort()

    asyncio.run(story())


def test_one_client_in_a_thousand_groups(served: ServedCluster) -> None:
    async def story() -> None:
        async with asyncio.timeout(SECONDS_MAX), connect(served.url("eu1"), membership=False) as session:
            await asyncio.gather(*[session.join(f"g{at}") for at in range(SESSIONS)])
            for at in range(SESSIONS):
                await session.multicast(f"g{at}", b"%d" % at)
            assert data(await take(session, SESSIONS)) == [b"%d" % at for at in range(SESSIONS)]

    asyncio.run(story())
    with sync.connect(served.url("eu1")) as after:
        after.join("g0")
