"""Input for the pipeline from real daemons: two sites with a spooler each, a split and a merge."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from tests.support.waiting import until

from hopring import AGREED, SAFE, sync
from hopring.spool.errors import NoSpool
from hopring.spool.reading import bounds, read
from hopring.spool.record import RecordKind
from hopring.spool.writer import SpoolOptions
from hopring.spooler import Spooler

GROUP = "trades"
TOGETHER, APART_EU, APART_US, AGAIN = 60, 20, 30, 12
SECONDS_MAX = 60.0


@dataclass(frozen=True)
class Story:
    """Paths of the trace and the spools of one run."""

    directory: Path

    @property
    def trace(self) -> Path:
        return self.directory / "trace"

    def spool(self, site: str) -> Path:
        return self.directory / "spools" / site

    def messages(self, site: str) -> int:
        """The number of messages in the spool of a site."""
        try:
            start, end = bounds(self.spool(site) / GROUP)
        except NoSpool:
            return 0
        return sum(one.header.kind is RecordKind.MESSAGE for one in read(self.spool(site) / GROUP, start, end))


@contextmanager
def spooling(session: sync.Session, root: Path) -> Iterator[None]:
    spooler = Spooler(session, root, [GROUP], SpoolOptions(sync_seconds=0.02))
    thread = Thread(target=spooler.run)
    thread.start()
    try:
        yield
    finally:
        spooler.stop()
        thread.join()


def tell(directory: Path) -> Story:
    """Runs the daemons and the clients; afterwards all files exist."""
    story = Story(directory)
    with (
        sync.local_cluster({"eu": 2, "us": 1}, directory=directory / "cluster", patience="1s") as cluster,
        cluster.connect("eu1", name="spooler") as eu,
        cluster.connect("us1", name="spooler") as us,
        spooling(eu, story.spool("eu")),
        spooling(us, story.spool("us")),
        cluster.connect("eu2", name="anna") as anna,
        cluster.connect("us1", name="bert") as bert,
    ):

        def met() -> bool:
            return all(len(one.members(GROUP).members) == 2 for one in (anna, bert))

        def hold(in_eu: int, in_us: int) -> Callable[[], bool]:
            return lambda: story.messages("eu") == in_eu and story.messages("us") == in_us

        until(met)
        send(anna, TOGETHER // 2)
        send(bert, TOGETHER // 2)
        until(hold(TOGETHER, TOGETHER))
        cluster.partition("eu", "us")
        cluster.settled()
        send(anna, APART_EU)
        send(bert, APART_US)
        until(hold(TOGETHER + APART_EU, TOGETHER + APART_US))
        cluster.heal()
        cluster.settled()
        until(met)
        send(anna, AGAIN // 2)
        send(bert, AGAIN // 2)
        until(hold(TOGETHER + APART_EU + AGAIN, TOGETHER + APART_US + AGAIN))
    story.trace.mkdir()
    for file in (directory / "cluster").glob("*.jsonl"):
        file.rename(story.trace / file.name)
    return story


def send(session: sync.Session, count: int) -> None:
    for number in range(count):
        session.multicast(GROUP, b"%d" % number, service=SAFE if number % 2 else AGREED)
