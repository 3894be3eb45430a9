"""Groups with a state at real daemons: joins under load, a speaker that is killed, a split and its merge."""

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import pytest

from hopring import (
    Cluster,
    Group,
    Message,
    NoState,
    ProviderFailed,
    Ready,
    Session,
    StateSnapshot,
    View,
    WrongType,
    WrongValue,
    connect,
    local_cluster,
    sync,
)

pytestmark = pytest.mark.slow

SECONDS_MAX = 60.0
SITES = {"eu": 2, "us": 1}


class Log:
    """A list of the messages of a group, with ballast in its snapshots."""

    def __init__(self, ballast_bytes: int = 0) -> None:
        self.entries: list[str] = []
        self.ballast_bytes = ballast_bytes
        self.ready: list[Ready] = []
        self.fails = ""
        self.given_bytes = 0  # Of ballast, so far.

    def snapshot(self) -> StateSnapshot:
        data = json.dumps(self.entries).encode()
        if self.fails == "lie":
            return StateSnapshot([data], len(data) + 1)

        def parts() -> Iterator[bytes]:
            yield data
            for _ in range(self.ballast_bytes // 100_000):
                self.given_bytes += 100_000
                yield b" " * 100_000
                if self.fails:
                    raise ValueError(self.fails)

        return StateSnapshot(parts())

    def restore(self, state: bytes) -> None:
        self.entries = json.loads(state)


class Union(Log):
    """The same, and the entries of several sides are put together."""

    def merge(self, states: Sequence[bytes]) -> None:
        self.entries = sorted({one for state in states for one in json.loads(state)})


async def follow(group: Group, log: Log) -> None:
    """Applies the messages of the group."""
    async for event in group:
        match event:
            case Ready():
                log.ready.append(event)
            case Message(data=data):
                log.entries.append(data.decode())


async def until(condition: Callable[[], object]) -> None:
    """Waits for a condition, as long as the limit of the story."""
    while not condition():
        await asyncio.sleep(0.01)


def run(story: object) -> None:
    async def limited() -> None:
        async with asyncio.timeout(3 * SECONDS_MAX):
            await story  # type: ignore[misc]

    asyncio.run(limited())


class Members:
    """Members of the group g at daemons of a cluster, each with a task that follows it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.sessions: dict[str, Session] = {}
        self.groups: dict[str, Group] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def join(self, name: str, daemon: str, log: Log) -> Log:
        others = [one for one in self.cluster.daemons if one != daemon]
        urls = [self.cluster.url(one) for one in (daemon, *others)]
        session = self.sessions[name] = await connect(urls, name=name)
        group = self.groups[name] = await session.join("g", state=log)
        self.tasks[name] = asyncio.create_task(follow(group, log))
        return log

    async def say(self, name: str, text: str) -> None:
        await self.groups[name].multicast(text.encode())

    async def end(self) -> None:
        for task in self.tasks.values():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        for session in self.sessions.values():
            session.abort()


def test_a_joiner_under_load_has_the_same_state_as_the_others() -> None:
    async def story() -> None:
        async with local_cluster(SITES, trace=False) as cluster:
            members = Members(cluster)
            logs = [await members.join("anna", "eu1", Log(3_000_000))]
            await until(lambda: logs[0].ready)
            assert logs[0].ready[0].speakers == ()
            logs.append(await members.join("bert", "us1", Log(3_000_000)))

            async def load() -> None:
                for number in range(1_000):
                    await members.say("anna" if number % 2 else "bert", f"m{number}")
                    await asyncio.sleep(0.001)

            loading = asyncio.create_task(load())
            await until(lambda: len(logs[0].entries) > 100)
            logs += [await members.join("carl", "eu2", Log()), await members.join("dora", "us1", Log())]
            await loading
            await until(lambda: all(len(log.entries) == 1_000 for log in logs))

            assert all(log.entries == logs[0].entries for log in logs)
            assert [len(log.ready) for log in logs] == [1, 1, 1, 1]
            assert logs[2].ready[0].speakers in (("#anna#eu1",), ("#bert#us1",))
            await members.end()

    run(story())


def test_another_member_speaks_when_the_speakers_daemon_is_killed_in_the_middle() -> None:
    async def story() -> None:
        async with local_cluster(SITES, trace=False) as cluster:
            members = Members(cluster)
            anna = await members.join("anna", "eu1", Log(60_000_000))
            bert = await members.join("bert", "us1", Log())
            await members.say("anna", "first")
            await until(lambda: bert.entries == ["first"] == anna.entries)
            carl = await members.join("carl", "eu2", Log())
            # The snapshot of anna, who speaks first, has 60 MB; carl has some of it.
            await until(lambda: anna.given_bytes > 2_000_000)
            assert not carl.ready
            await cluster.crash("eu1")
            await members.say("bert", "second")
            await until(lambda: carl.entries == ["first", "second"])
            assert carl.ready[0].speakers == ("#bert#us1",)
            # Anna comes back by another daemon, with the state of her earlier session.
            await until(lambda: anna.entries == ["first", "second"])
            await members.end()

    run(story())


@pytest.mark.parametrize("merges", [False, True])
def test_after_a_split_and_a_merge_all_have_one_state(merges: bool) -> None:
    async def story() -> None:
        async with local_cluster(SITES, trace=False) as cluster:
            members = Members(cluster)
            kind = Union if merges else Log
            logs = {
                "anna": await members.join("anna", "eu1", kind()),
                "bert": await members.join("bert", "eu2", kind()),
                "carl": await members.join("carl", "us1", kind()),
            }
            await members.say("anna", "a")
            await until(lambda: all(log.entries == ["a"] for log in logs.values()))
            await cluster.partition(["eu1", "eu2"], ["us1"])
            await members.say("anna", "majority")
            await members.say("carl", "minority")
            await until(lambda: logs["bert"].entries[-1:] == ["majority"])
            await until(lambda: logs["carl"].entries[-1:] == ["minority"])
            await cluster.heal()
            both = ["a", "majority", "minority"] if merges else ["a", "majority"]
            await until(lambda: all(log.entries == both for log in logs.values()))
            assert logs["carl"].ready[-1].merged is merges
            await members.say("carl", "z")
            await until(lambda: all(log.entries == [*both, "z"] for log in logs.values()))
            await members.end()

    run(story())


@pytest.mark.parametrize("fails", ["lie", "no memory"])
def test_snapshots_that_fail_are_errors_of_the_speaker_and_of_the_joiner(fails: str) -> None:
    async def story() -> None:
        async with local_cluster({"eu": 1}, trace=False) as cluster:
            members = Members(cluster)
            anna = await members.join("anna", "eu1", Log(1_000_000))
            await until(lambda: anna.ready)
            anna.fails = fails
            await members.join("bert", "eu1", Log())
            with pytest.raises(ProviderFailed, match="the state of g: snapshot failed"):
                await members.tasks["anna"]
            # Nothing is lost for anna, who can go on.
            members.tasks["anna"] = asyncio.create_task(follow(members.groups["anna"], anna))
            with pytest.raises(NoState, match="#anna#eu1: "):
                await members.tasks.pop("bert")
            await members.say("anna", "x")
            await until(lambda: anna.entries == ["x"])
            await members.end()

    run(story())


def test_wrong_arguments_are_refused_at_the_call() -> None:
    async def story() -> None:
        async with local_cluster({"eu": 1}, trace=False) as cluster:
            async with connect(cluster.url("eu1")) as session:
                with pytest.raises(WrongType, match="snapshot"):
                    session.join("g", state=object())  # type: ignore[arg-type]
            async with connect(cluster.url("eu1"), slow="drop") as session:
                with pytest.raises(WrongValue, match="misses messages"):
                    session.join("g", state=Log())
            async with connect(cluster.url("eu1"), membership=False) as session:
                with pytest.raises(WrongValue, match="needs views"):
                    session.join("g", state=Log())

    run(story())


def test_blocking_members_have_a_state_too() -> None:
    with sync.local_cluster({"eu": 1}, trace=False) as cluster:
        first, second = Log(), Log()
        with cluster.connect("eu1", name="anna") as anna, cluster.connect("eu1", name="bert") as bert:
            one = anna.join("g", state=first)
            assert isinstance(one.receive(timeout_seconds=SECONDS_MAX), Ready)
            one.multicast(b"x")
            message = one.receive(timeout_seconds=SECONDS_MAX)
            assert isinstance(message, Message)
            first.entries.append("x")
            two = bert.join("g", state=second)
            assert isinstance(one.receive(timeout_seconds=SECONDS_MAX), View)
            event = None
            while event is None:
                # Both have one thread: anna has to wait for the transfer to go on.
                with suppress(TimeoutError):
                    one.receive(timeout_seconds=0.05)
                with suppress(TimeoutError):
                    event = two.receive(timeout_seconds=0.05)
            assert isinstance(event, Ready)
            assert second.entries == ["x"]
