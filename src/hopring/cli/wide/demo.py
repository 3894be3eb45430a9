"""`hop wide demo`: three clusters, a link that is off for a while, and a verdict on what clients saw."""

import asyncio
import json
import time
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import click

from hopring.check.properties.property import Verdict
from hopring.check.wide.history import WideAccepted, WideEvent, WideSeen, WideSent, index_wide
from hopring.check.wide.properties import (
    judge_causes,
    judge_invented,
    judge_mixed_causes,
    judge_none_lost,
    judge_once,
    judge_one_line,
    judge_one_order,
    judge_requests,
)
from hopring.cli.daemon_session import client_errors, json_option
from hopring.cli.terminal import Exit, Failure, say
from hopring.cli.wide.showing import of_cluster
from hopring.errors import HopError
from hopring.haul.ids import ClusterId, ParcelId, Talk, clusters_mask
from hopring.haul.order.events import CastKind, Parcel
from hopring.local.process import ClusterError
from hopring.wide.library.events import WideId, WideMessage, WideReceipt
from hopring.wide.library.sets import JoinedSet, join, link
from hopring.wide.local_clusters.aio import AioLocalWide
from hopring.wide.local_clusters.processes import NotReady

CLUSTERS: Final = ("hub", "norway", "sandiego")
CLIENTS_EACH: Final = 2
SET: Final = "demo"
AWAY: Final = "norway"
"""The cluster to which the link of the first one is off for a while."""

ABCAST_EVERY: Final = 3
LOOK_SECONDS: Final = 0.05
STEP_SECONDS: Final = 60.0
"""How long a step may take on a busy machine."""

JUDGES: Final = (
    *(judge_invented, judge_once, judge_causes, judge_one_line),
    *(judge_one_order, judge_mixed_causes, judge_none_lost, judge_requests),
)
"""The properties that the history of clients shows by itself: W1 to W7, and W10."""


@dataclass(slots=True)
class WideDemoFacts:
    """What came of a demonstration."""

    seconds: float = 0.0
    messages: int = 0
    deliveries: int = 0
    spooled: int = 0  # Messages in the spool when everything had been sent.
    emptied_seconds: float = 0.0  # From the link being on to the spool being empty and off.
    held: int = 0
    broken: dict[str, str] = field(default_factory=dict)
    ok: bool = False


class WideDemoClient:
    """One client of the set, and what it has sent and seen."""

    def __init__(self, demo: "WideDemo", name: str, joined: JoinedSet) -> None:
        self.name = name
        self.seen: set[str] = set()
        self._demo = demo
        self._joined = joined
        self._sent = 0

    async def send(self, count: int) -> list[WideReceipt]:
        """Sends so many messages, one after the other: cbcasts, and some abcasts."""
        return [await self._send() for _ in range(count)]

    async def _send(self) -> WideReceipt:
        demo, self._sent = self._demo, self._sent + 1
        text, everybody = f"{self.name}.{self._sent}", demo.everybody
        is_abcast = self._sent % ABCAST_EVERY == 0
        kind = CastKind.ABCAST if is_abcast else CastKind.CBCAST
        me = demo.ids[self._joined.cluster]
        demo.sent.append(text)
        demo.events.append(
            WideSent(self.name, me, text, SET, Talk(everybody), kind, everybody, 0, self._sent, False)
        )
        data = text.encode()
        receipt = await (self._joined.abcast(data) if is_abcast else self._joined.cbcast(data))
        demo.events.append(WideAccepted(self.name, text, demo.parcel_id(receipt.id), (), 0))
        return receipt

    async def listen(self) -> None:
        """Notes all messages that come here."""
        demo, me = self._demo, self._demo.ids[self._joined.cluster]
        async for event in self._joined:
            if isinstance(event, WideMessage):
                text = event.data.decode()
                demo.events.append(WideSeen(self.name, me, SET, event.number, text, demo.parcel(event)))
                self.seen.add(text)
                demo.changed.set()


class WideDemo:
    """The story, and the history of all its clients in the order in which it happened."""

    def __init__(self, world: AioLocalWide, messages: int, *, quiet: bool) -> None:
        self.world = world
        self.events: list[WideEvent] = []
        self.sent: list[str] = []
        self.ids: dict[str, ClusterId] = {one.name: one.id for one in world.file.clusters}
        self.everybody = clusters_mask(self.ids.values())
        self.changed = asyncio.Event()
        self.facts = WideDemoFacts()
        self._messages = messages
        self._quiet = quiet
        self._clients: dict[str, list[WideDemoClient]] = {}

    def parcel_id(self, shown: WideId) -> ParcelId:
        """The parcel of a message, as checks name it."""
        return ParcelId(self.ids[shown.cluster], shown.number)

    def parcel(self, message: WideMessage) -> Parcel:
        """A message as checks have it; what is known of its causes comes from clients alone."""
        talk = Talk(clusters_mask([self.ids[one] for one in message.clusters]), message.conversation)
        kind = CastKind.CBCAST if message.order is None else CastKind.ABCAST
        to = clusters_mask([self.ids[one] for one in message.to])
        return Parcel(self.parcel_id(message.id), talk, kind, to, message.entry, (), message.order or 0)

    async def tell(self) -> None:
        """All of it, from the first message to the verdict."""
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
            listening = []
            for cluster in CLUSTERS:
                for at in range(CLIENTS_EACH):
                    client = await self._client(stack, cluster, f"{cluster}-{at + 1}")
                    listening.append(tasks.create_task(client.listen()))
            self._say(f"{len(listening)} clients are in the set {SET}, {CLIENTS_EACH} in each cluster")
            await self._send_and_see("all clusters are linked")
            await self._with_link_off(stack)
            await self._send_and_see("all clusters are linked again")
            for task in listening:
                task.cancel()
        self._judge()

    async def _client(self, stack: AsyncExitStack, cluster: str, name: str) -> WideDemoClient:
        session = await stack.enter_async_context(self.world.connect(cluster, name=name))
        joined = await stack.enter_async_context(join(session, SET, timeout_seconds=STEP_SECONDS))
        client = WideDemoClient(self, name, joined)
        self._clients.setdefault(cluster, []).append(client)
        return client

    async def _with_link_off(self, stack: AsyncExitStack) -> None:
        first = CLUSTERS[0]
        operator = await stack.enter_async_context(self.world.connect(first))
        await link(operator, AWAY).off()
        self._say(f"the link of {first} to {AWAY} is off")
        receipts = await self._send()
        own = self._messages * CLIENTS_EACH
        spool = await self._spool_that(lambda one: one["on"] and one["messages"] >= own)
        self.facts.spooled = spool["messages"]
        self._say(f"all send again; interLAN spool {AWAY} of {first}: on, {self.facts.spooled} messages")
        began = time.monotonic()
        await link(operator, AWAY).on()
        await self._spool_that(lambda one: not one["on"])
        self.facts.emptied_seconds = round(time.monotonic() - began, 2)
        self._say(f"the link is on; the spool is empty and off after {self.facts.emptied_seconds:g} s")
        await asyncio.gather(*[one.everywhere(timeout_seconds=STEP_SECONDS) for one in receipts])
        await self._seen_everywhere()

    async def _send(self) -> list[WideReceipt]:
        every = [one for some in self._clients.values() for one in some]
        sent = await asyncio.gather(*[one.send(self._messages) for one in every])
        return [receipt for some in sent for receipt in some]

    async def _send_and_see(self, when: str) -> None:
        began = time.monotonic()
        receipts = await self._send()
        await self._seen_everywhere()
        self._say(f"{when}: {len(receipts)} messages are everywhere after {time.monotonic() - began:.1f} s")

    async def _seen_everywhere(self) -> None:
        every = [one for some in self._clients.values() for one in some]
        async with asyncio.timeout(STEP_SECONDS):
            while not all(len(one.seen) == len(self.sent) for one in every):
                self.changed.clear()
                await self.changed.wait()

    async def _spool_that(self, condition: Any) -> dict[str, Any]:
        """The spool of the first cluster for the one that is away, as soon as it is so."""
        async with asyncio.timeout(STEP_SECONDS):
            while True:
                members = await self.world.status(CLUSTERS[0])
                spools = of_cluster(members)["spools"] if members else []
                for one in spools:
                    if (one["set"], one["to"]) == (SET, AWAY) and condition(one):
                        return dict(one)
                await asyncio.sleep(LOOK_SECONDS)

    def _judge(self) -> None:
        history = index_wide(self.events)
        verdicts: list[Verdict] = [judge(history) for judge in JUDGES]
        self.facts.messages = len(self.sent)
        self.facts.deliveries = len([one for one in self.events if isinstance(one, WideSeen)])
        self.facts.broken = {one.property: one.witness for one in verdicts if not one}
        self.facts.held = len(verdicts) - len(self.facts.broken)
        self.facts.ok = not self.facts.broken
        self._say(f"{self.facts.messages} messages, {self.facts.deliveries} deliveries")
        for one in verdicts:
            self._say(f"holds: {one.property}" if one else f"! broken: {one.property}: {one.witness}")

    def _say(self, line: str) -> None:
        if not self._quiet:
            say(line)


@click.command()
@click.option(
    "--members",
    type=click.Choice(["1", "3", "5"]),
    default="1",
    show_default=True,
    help="Members of the service in each cluster.",
)
@click.option(
    "--messages",
    type=click.IntRange(1, 1000),
    default=10,
    show_default=True,
    help="Messages of each client in each of the three phases.",
)
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the clusters file, keys and logs in this directory; it must not have any yet.",
)
@json_option
def demo(members: str, messages: int, out: Path | None, as_json: bool) -> None:
    """Join three clusters of this machine, switch a link off and on, and judge what clients saw.

    Six clients send to all. While the link of the hub to Norway is off, messages wait in the hub's spool; when
    it is on again the spool empties. At the end the histories of the clients are judged by W1 to W7 and W10,
    the properties that they show by themselves. Exit code 1 means that one is broken, or that a step took too
    long.
    """
    began = time.monotonic()
    if not as_json:
        say(f"starting three clusters with {members} member{'s' if members != '1' else ''} each")
    try:
        with client_errors():
            facts = asyncio.run(_demonstrate(int(members), messages, out, as_json))
    except (ClusterError, NotReady, ValueError) as error:
        raise Failure(str(error)) from None
    facts.seconds = round(time.monotonic() - began, 1)
    if as_json:
        click.echo(json.dumps(asdict(facts)))
    if not facts.ok:
        click.get_current_context().exit(Exit.FAILURE)


async def _demonstrate(members: int, messages: int, out: Path | None, quiet: bool) -> WideDemoFacts:
    async with AioLocalWide(dict.fromkeys(CLUSTERS, 1), members=members, directory=out) as world:
        story = WideDemo(world, messages, quiet=quiet)
        try:
            await story.tell()
        except* TimeoutError:
            raise Failure(f"a step took more than {STEP_SECONDS:g} s") from None
        except* HopError as errors:
            raise Failure(str(errors.exceptions[0])) from None
        return story.facts
