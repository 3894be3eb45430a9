"""Finding data and results in several clusters: who has what, and whether to move or to compute it.

    python -m examples.locate

Each cluster has a catalogue. A domain is a part of the clusters: what is entered in it is seen by all of them,
and by nobody else. An entry names what it was made from, and no reader sees it before that. Who wants a result
that is not there claims it: claims have one order, so that nobody computes what another one has begun. A result
that is there is moved or computed again, whatever takes less time.
"""

import argparse
import asyncio
import base64
import json
import sys
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final

from hopring import wide
from hopring.wide import AioLocalWide, JoinedSet, WideMessage

Recipe = Callable[[Sequence[bytes]], bytes]
"""Computes a result from what it is made from."""


@dataclass(frozen=True, slots=True)
class Domain:
    """Clusters that share a part of the names; one conversation among them."""

    name: str
    clusters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """What the catalogue says of a piece of data."""

    name: str  # A path, as "norway/seg17".
    home: str  # The cluster that has it.
    size_bytes: int
    made_from: tuple[str, ...] = ()  # Names of the same domain.
    cpu_seconds: float = 0.0  # What it takes to make it again.
    text: str = ""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A result that somebody asks for, and how it is made if nobody has it."""

    name: str
    made_from: tuple[str, ...]
    cpu_seconds: float
    recipe: Recipe
    text: str = ""


class How(StrEnum):
    """How a result came to who asked for it."""

    HERE = "was here"
    COMPUTED = "computed"
    MOVED = "moved"
    AGAIN = "computed again"


class NotThere(LookupError):
    """A name is not in the domain, as far as this cluster knows."""


@dataclass(slots=True)
class Shelf:
    """What one cluster knows of one domain, in the order in which it came."""

    domain: Domain
    entries: dict[str, Entry] = field(default_factory=dict)
    claims: dict[str, list[str]] = field(default_factory=dict)  # Clusters by name, in the order of claims.
    data: dict[str, bytes] = field(default_factory=dict)
    early: list[str] = field(default_factory=list)  # Entries that came before what they name: there is none.

    def drop_claims(self, cluster: str, names: Sequence[str]) -> None:
        """Claims of a cluster do not stand any more."""
        for name in names:
            left = [one for one in self.claims.pop(name, []) if one != cluster]
            if left:
                self.claims[name] = left


class Catalogue:
    """The catalogue in one cluster: it hears of others by its own cluster alone."""

    def __init__(
        self, joined: JoinedSet, domains: Sequence[Domain], rates: Mapping[frozenset[str], float]
    ) -> None:
        """`rates` are bytes a second between two clusters."""
        self.cluster = joined.cluster
        self.computed: list[str] = []  # What was computed here, and was nowhere before.
        self._rates = rates
        self._shelves = {one.name: Shelf(one) for one in domains if self.cluster in one.clusters}
        self._talks = {
            name: joined.conversation(*one.domain.clusters, name=name) for name, one in self._shelves.items()
        }
        self._changed = asyncio.Event()

    async def begin(self) -> None:
        """Says that this program begins: what one before it had claimed is nobody's any more."""
        for talk in self._talks.values():
            await talk.abcast(_encode("begin", name=""))

    # Search, read, update.

    def search(self, domain: str, *, under: str = "", text: str = "") -> list[Entry]:
        """The entries of a domain below a path, and with this text."""
        found = self._shelves[domain].entries.values() if domain in self._shelves else ()
        return [one for one in found if one.name.startswith(under) and text in one.text]

    def read(self, domain: str, name: str) -> Entry:
        """The entry of a name; NotThere if it has not come yet."""
        found = self._shelves[domain].entries.get(name) if domain in self._shelves else None
        if found is None:
            raise NotThere(f"{name} is not in {domain} at {self.cluster}")
        return found

    async def until_read(self, domain: str, name: str) -> Entry:
        """The entry of a name, as soon as it has come."""
        await self._until(lambda: name in self._shelves[domain].entries)
        return self.read(domain, name)

    async def update(
        self,
        domain: str,
        name: str,
        data: bytes,
        *,
        made_from: tuple[str, ...] = (),
        cpu_seconds: float = 0.0,
        text: str = "",
    ) -> Entry:
        """Enters data of this cluster. What it names has to be readable here, in the same domain."""
        for one in made_from:
            self.read(domain, one)
        entry = Entry(name, self.cluster, len(data), made_from, cpu_seconds, text)
        self._shelves[domain].data[name] = data
        await self._talks[domain].cbcast(_encode("entry", **asdict(entry)))
        return entry

    # Results.

    async def obtain(self, domain: str, wanted: Wanted) -> tuple[bytes, How]:
        """The result of this name: here, moved, or computed; by one cluster only, if nobody has it yet."""
        shelf = self._shelves[domain]
        if wanted.name not in shelf.entries:
            await self.claim(domain, wanted.name)
            await self._until(lambda: self._may_compute(shelf, wanted.name) or wanted.name in shelf.entries)
        if wanted.name not in shelf.entries:
            return await self._compute(domain, wanted), How.COMPUTED
        entry = shelf.entries[wanted.name]
        if wanted.name in shelf.data:
            return shelf.data[wanted.name], How.HERE
        if self.seconds_to_move(entry) <= self.seconds_to_compute(domain, entry):
            return await self._fetch(domain, wanted.name), How.MOVED
        inputs = [await self._fetch(domain, one) for one in entry.made_from]
        shelf.data[wanted.name] = await asyncio.to_thread(wanted.recipe, inputs)
        return shelf.data[wanted.name], How.AGAIN

    def seconds_to_move(self, entry: Entry) -> float:
        """How long it takes to bring this data here."""
        if entry.home == self.cluster:
            return 0.0
        return entry.size_bytes / self._rates[frozenset((entry.home, self.cluster))]

    def seconds_to_compute(self, domain: str, entry: Entry) -> float:
        """How long it takes to compute this data here, with what has to be moved for it."""
        shelf = self._shelves[domain]
        absent = [shelf.entries[one] for one in entry.made_from if one not in shelf.data]
        return entry.cpu_seconds + sum([self.seconds_to_move(one) for one in absent])

    async def claim(self, domain: str, name: str) -> None:
        """Says that this cluster wants to compute a result."""
        await self._talks[domain].abcast(_encode("claim", name=name))

    async def until_claimed(self, domain: str, name: str, count: int) -> None:
        """Returns when this cluster knows of so many claims."""
        await self._until(lambda: len(self._shelves[domain].claims.get(name, ())) >= count)

    def _may_compute(self, shelf: Shelf, name: str) -> bool:
        """Whether the claim of this cluster is the first one that stands."""
        return shelf.claims.get(name, [""])[0] == self.cluster

    async def _compute(self, domain: str, wanted: Wanted) -> bytes:
        try:
            inputs = [await self._fetch(domain, one) for one in wanted.made_from]
            data = await asyncio.to_thread(wanted.recipe, inputs)
        except BaseException:
            # Whose claim is the next one computes it.
            await self._talks[domain].abcast(_encode("withdraw", name=wanted.name))
            raise
        self.computed.append(wanted.name)
        facts = {"made_from": wanted.made_from, "cpu_seconds": wanted.cpu_seconds, "text": wanted.text}
        await self.update(domain, wanted.name, data, **facts)  # type: ignore[arg-type]
        return data

    async def _fetch(self, domain: str, name: str) -> bytes:
        shelf = self._shelves[domain]
        if name not in shelf.data:
            home = self.read(domain, name).home
            await self._talks[domain].cbcast(_encode("fetch", name=name), to=home)
            await self._until(lambda: name in shelf.data)
        return shelf.data[name]

    # What arrives.

    async def follow(self, joined: JoinedSet) -> None:
        """Takes what arrives, in its order."""
        async for event in joined:
            if isinstance(event, WideMessage) and event.conversation in self._shelves:
                await self._take(event, json.loads(event.data))
                self._changed.set()

    async def _take(self, event: WideMessage, message: dict[str, Any]) -> None:
        shelf = self._shelves[event.conversation]
        kind, name = message.pop("kind"), str(message["name"])
        if kind == "entry":
            entry = Entry(**{**message, "made_from": tuple(message["made_from"])})
            shelf.early += [name for one in entry.made_from if one not in shelf.entries]
            shelf.entries[name] = entry
            shelf.claims.pop(name, None)
        elif kind == "claim" and name not in shelf.entries:
            shelf.claims.setdefault(name, []).append(event.id.cluster)
        elif kind in ("withdraw", "begin"):
            shelf.drop_claims(event.id.cluster, [name] if name else list(shelf.claims))
        elif kind == "fetch":
            data = base64.b64encode(shelf.data[name]).decode()
            await self._talks[event.conversation].cbcast(
                _encode("data", name=name, data=data), to=event.id.cluster
            )
        elif kind == "data":
            shelf.data[name] = base64.b64decode(message["data"])

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    @property
    def early(self) -> list[str]:
        """Entries that came before what they name."""
        return [name for shelf in self._shelves.values() for name in shelf.early]


def _encode(kind: str, **facts: object) -> bytes:
    return json.dumps({"kind": kind, **facts}).encode()


# A story of three clusters.

CLUSTERS: Final = ("hub", "norway", "sandiego")
EVERYWHERE: Final = Domain("everywhere", CLUSTERS)
NORTH: Final = Domain("north", ("hub", "norway"))
RATES: Final = {
    frozenset(("hub", "norway")): 4_000.0,
    frozenset(("hub", "sandiego")): 40_000.0,
    frozenset(("norway", "sandiego")): 1_000.0,
}
RAW: Final = bytes(range(256)) * 32
"""A trace: 8 KiB, which take 2 s to the hub and 8 s to San Diego."""


def spectrum(inputs: Sequence[bytes]) -> bytes:
    """A short result: how often each of eight levels is in the traces."""
    counts = [0] * 8
    for trace in inputs:
        for sample in trace:
            counts[sample // 32] += 1
    return json.dumps(counts).encode()


def picture(inputs: Sequence[bytes]) -> bytes:
    """A long result: a line of eight pixels for each sample."""
    return b"".join([bytes([sample]) * 8 for trace in inputs for sample in trace])


LATE: Final = Wanted("spectrum/seg18", ("norway/seg18",), 0.5, spectrum)


class Story:
    """What happens, told line by line; what should not happen is in `wrong`."""

    def __init__(self, world: AioLocalWide, catalogues: dict[str, Catalogue]) -> None:
        self.world = world
        self.at = catalogues
        self.lines: list[str] = []
        self.wrong: list[str] = []
        self._waiting: asyncio.Task[tuple[bytes, How]]

    async def tell(self) -> None:
        """The story, up to the end of one of the programs."""
        await self.domains()
        await self.causes()
        await self.claims()
        await self.costs()
        await self.withdrawn()
        await self.dies("sandiego", waits="hub")
        for one in self.at.values():
            self.check(not one.early, f"{one.cluster} saw {one.early} before what they name")

    async def domains(self) -> None:
        """An entry is seen in its domain alone."""
        await self.at["norway"].update("north", "norway/calibration", b"1.02", text="gain of the sensors")
        await self.at["norway"].update("everywhere", "norway/seg17", RAW, text="trace")
        await asyncio.gather(*[one.until_read("everywhere", "norway/seg17") for one in self.at.values()])
        await asyncio.gather(
            *[self.at[one].until_read("north", "norway/calibration") for one in NORTH.clusters]
        )
        found = {name: [each.name for each in one.search("north")] for name, one in self.at.items()}
        self.say(f"entries of north: {found}")
        self.check(found["hub"] == ["norway/calibration"] and not found["sandiego"], "domains are mixed up")

    async def causes(self) -> None:
        """An entry that names another one is not seen before it, though a link is cut."""
        await self.world.cut("norway", "sandiego")
        await self.at["norway"].update("everywhere", "norway/seg18", RAW[::-1], text="trace")
        await self.at["hub"].until_read("everywhere", "norway/seg18")
        await self.at["hub"].update("everywhere", "events/9", b"{}", made_from=("norway/seg18",), text="event")
        await self.at["sandiego"].until_read("everywhere", "events/9")
        names = [one.name for one in self.at["sandiego"].search("everywhere")]
        self.say(f"norway and sandiego are cut; sandiego sees {names}")
        self.check(names[-2:] == ["norway/seg18", "events/9"], "an event was seen before its trace")
        await self.world.heal()

    async def claims(self) -> None:
        """Three want a result at once, and one of them computes it."""
        wanted = Wanted("spectrum/seg17", ("norway/seg17",), 0.5, spectrum)
        results = await asyncio.gather(*[one.obtain("everywhere", wanted) for one in self.at.values()])
        hows = sorted([how for _, how in results])
        self.say(f"spectrum/seg17 for three: {', '.join(hows)}")
        self.check(hows.count(How.COMPUTED) == 1, "not one has computed what all have claimed")
        self.check(len({data for data, _ in results}) == 1, "results differ")

    async def costs(self) -> None:
        """A result is moved where that takes less time, and computed again elsewhere."""
        wanted = Wanted("picture/seg18", ("norway/seg18",), 0.5, picture)
        hows = {name: (await self.at[name].obtain("everywhere", wanted))[1] for name in CLUSTERS}
        self.say(f"picture/seg18: {', '.join(f'{how} at {name}' for name, how in hows.items())}")
        expected = {"hub": How.COMPUTED, "norway": How.AGAIN, "sandiego": How.MOVED}
        self.check(hows == expected, f"picture/seg18 came otherwise than {expected}")

    async def withdrawn(self) -> None:
        """Who claimed first fails; the next one, which has waited, computes."""
        name, made_from = "spectrum/both", ("norway/seg17", "norway/seg18")
        begun = threading.Event()

        def fail(_inputs: Sequence[bytes]) -> bytes:
            begun.wait()
            raise ArithmeticError("no result")

        hub, norway = self.at["hub"], self.at["norway"]
        first = asyncio.create_task(hub.obtain("everywhere", Wanted(name, made_from, 0.5, fail)))
        await hub.until_claimed("everywhere", name, 1)
        second = asyncio.create_task(norway.obtain("everywhere", Wanted(name, made_from, 0.5, spectrum)))
        await hub.until_claimed("everywhere", name, 2)
        begun.set()
        (failed, done) = await asyncio.gather(first, second, return_exceptions=True)
        how = done if isinstance(done, BaseException) else done[1]
        self.say(f"{name}: {type(failed).__name__} at hub, {how} at norway")
        self.check(isinstance(failed, ArithmeticError), "a computation that fails has a result")
        self.check(how is How.COMPUTED, "a claim that was withdrawn stands")

    async def dies(self, cluster: str, waits: str) -> None:
        """A program claims a result; another one wants it, too. Then the first one ends without a word."""
        await self.at[cluster].claim("everywhere", LATE.name)
        await self.at[waits].until_claimed("everywhere", LATE.name, 1)
        self._waiting = asyncio.create_task(self.at[waits].obtain("everywhere", LATE))
        await self.at[cluster].until_claimed("everywhere", LATE.name, 2)
        self.check(not self._waiting.done(), "two compute what one of them has claimed")

    async def begins_again(self, cluster: str, waits: str) -> None:
        """The program is started again, and its claim is gone."""
        _, how = await self._waiting
        self.say(f"{LATE.name}: claimed by {cluster}, which was started again; {how} at {waits}")
        self.check(how is How.COMPUTED, "a claim outlives its program")

    def say(self, line: str) -> None:
        """Adds a line."""
        self.lines.append(line)

    def check(self, holds: bool, otherwise: str) -> None:
        """Notes what should be otherwise."""
        if not holds:
            self.wrong.append(otherwise)


@asynccontextmanager
async def program(world: AioLocalWide, cluster: str) -> AsyncIterator[Catalogue]:
    """A program with a catalogue, from its start to its end."""
    async with (
        world.connect(cluster, name=f"catalogue-{cluster}") as session,
        wide.join(session, "locate", clusters=CLUSTERS, timeout_seconds=120) as joined,
        asyncio.TaskGroup() as tasks,
    ):
        catalogue = Catalogue(joined, (EVERYWHERE, NORTH), RATES)
        following = tasks.create_task(catalogue.follow(joined))
        await catalogue.begin()
        yield catalogue
        following.cancel()


async def run(world: AioLocalWide) -> Story:
    """Tells the story at clusters that run."""
    async with program(world, "hub") as hub, program(world, "norway") as norway:
        async with program(world, "sandiego") as sandiego:
            story = Story(world, {"hub": hub, "norway": norway, "sandiego": sandiego})
            await story.tell()
        async with program(world, "sandiego") as sandiego:
            story.at["sandiego"] = sandiego
            await story.begins_again("sandiego", waits="hub")
    return story


async def main() -> int:
    """Starts three clusters; 0 if everything was as it should be."""
    async with wide.local(dict.fromkeys(CLUSTERS, 1)) as world:
        story = await run(world)
    print("\n".join([*story.lines, *[f"! {one}" for one in story.wrong]]))
    return 1 if story.wrong else 0


if __name__ == "__main__":
    argparse.ArgumentParser(description="Locate data and results in three clusters.").parse_args()
    sys.exit(asyncio.run(main()))
