"""Calls of strangers to a ring: the order, acknowledgements, handlers, replies, losses of members, flushes."""

from dataclasses import dataclass, field, replace
from functools import partial
from random import Random

import pytest
from tests.unit.rmp.ring_world import Faults, Node, World

from hopring.ids import NEVER
from hopring.links.events import Tick
from hopring.ordering.holders import MAJORITY
from hopring.rmp.calls.clients import ANSWERS_BYTES_MAX, ANSWERS_MAX, ClientCalls
from hopring.rmp.calls.events import (
    CallAcknowledged,
    CallAnswered,
    CallFailed,
    StrangerInput,
    StrangerNews,
    SubmitCall,
)
from hopring.rmp.calls.stranger import Stranger, StrangerOptions
from hopring.rmp.events import (
    AnswerRequested,
    ClaimRingLock,
    DataDelivered,
    JoinRing,
    ListInstalled,
    MulticastPacket,
    PacketArrived,
    RingNews,
    SubmitData,
    SubmitReply,
    UnicastPacket,
)
from hopring.rmp.flow.flow import SenderFlow
from hopring.rmp.options import PeerRingOptions
from hopring.services import Service
from hopring.wire.rmp.codec import decode_packet, encode_packet
from hopring.wire.rmp.ids import DataId, PeerProcess
from hopring.wire.rmp.lists import STRANGERS_MAX, ListId
from hopring.wire.rmp.packets import NO_HANDLER, NonMemberAck, NonMemberData, RmpPacket

SECOND = 1_000_000
SETTLE_US = 500_000


@dataclass(slots=True)
class Caller:
    """A stranger in a world, and what it was told."""

    stranger: Stranger
    news: list[tuple[int, StrangerNews]] = field(default_factory=list)
    tick_at_us: int = NEVER


class CallWorld(World):
    """A world with strangers. Members answer with the number of the member and the request."""

    def __init__(self, seed: int, options: PeerRingOptions, faults: Faults) -> None:
        super().__init__(seed, options, faults)
        self.callers: dict[tuple[int, int], Caller] = {}
        self.asked: list[tuple[Node, AnswerRequested]] = []
        self.silent: set[PeerProcess] = set()  # Members whose programs do not answer.

    def caller(self, number: int) -> Caller:
        """A new stranger."""
        me = PeerProcess(0x0B000000 + number, 6000, 77 + number)
        found = Caller(Stranger(me, "red", StrangerOptions(), SenderFlow()))
        self.callers[me.address, me.port] = found
        return found

    def call(self, caller: Caller, event: StrangerInput) -> None:
        """One step of a stranger."""
        for output in caller.stranger.step(event, self.now_us):
            if isinstance(output, MulticastPacket):
                for node in self.nodes.values():
                    self._pass(node, output.packet, caller)
            elif isinstance(output, UnicastPacket):
                self._pass(self.nodes[output.to], output.packet, caller)
            else:
                caller.news.append((self.now_us, output))
        wake_at_us = max(caller.stranger.wake_at_us, self.now_us)
        if wake_at_us < NEVER and wake_at_us != caller.tick_at_us:
            caller.tick_at_us = wake_at_us
            self.at(wake_at_us, partial(self._wake, caller, wake_at_us))

    def _wake(self, caller: Caller, at_us: int) -> None:
        if caller.tick_at_us == at_us:
            caller.tick_at_us = NEVER
            self.call(caller, Tick())

    def _pass(self, node: Node, packet: RmpPacket, caller: Caller) -> None:
        coded = decode_packet(encode_packet(packet))
        for _ in range(2 if self.dice.random() < self.faults.doubled else 1):
            if self.dice.random() >= self.faults.loss:
                event = PacketArrived(coded, 0, caller.stranger.me)
                delay_us = self.faults.delay_us + self.dice.randrange(self.faults.jitter_us + 1)
                self.at(self.now_us + delay_us, partial(self._step, node, event))

    def _unicast(self, node: Node, to: PeerProcess, packet: RmpPacket, epoch: int) -> None:
        caller = self.callers.get(to[:2])
        if caller is None:
            super()._unicast(node, to, packet, epoch)
        elif self.dice.random() >= self.faults.loss:
            event = PacketArrived(decode_packet(encode_packet(packet)), epoch, node.process)
            self.at(self.now_us + self.faults.delay_us, partial(self.call, caller, event))

    def _news(self, node: Node, news: RingNews) -> None:
        super()._news(node, news)
        if isinstance(news, AnswerRequested):
            self.asked.append((node, news))
            if news.stranger and node.process not in self.silent:
                body = f"{node.process.port} ".encode() + news.body
                self.at(self.now_us + 100, partial(self._step, node, SubmitReply(news.id, body)))


def ring_of(
    count: int, loss: float = 0.0, seed: int = 1, minimum: int = 1, **options: object
) -> tuple[CallWorld, list[Node], Caller]:
    """A ring of so many members, and a stranger."""
    world = CallWorld(seed, PeerRingOptions(**options), Faults())  # type: ignore[arg-type]
    nodes = [world.add(number, JoinRing(f"n{number}", minimum)) for number in range(1, count + 1)]
    for node in nodes:
        world.join(node)
        world.run_until(world.now_us + SETTLE_US)
    world.faults.loss = world.faults.doubled = loss
    return world, nodes, world.caller(1)


def call(
    body: bytes, ticket: int = 0, handler: int = NO_HANDLER, service: Service = Service.AGREED, **more: object
) -> SubmitCall:
    return SubmitCall(service, body, 20 * SECOND, ticket=ticket, handler=handler, **more)  # type: ignore[arg-type]


def bodies(node: Node) -> list[bytes]:
    return [one.body for one in node.stays[-1].news if isinstance(one, DataDelivered)]


def told(caller: Caller) -> list[StrangerNews]:
    return [one for _, one in caller.news]


def hold(world: CallWorld, node: Node, handler: int) -> None:
    """This member gets, or waits for, a handler lock; rings here are not primary."""
    world.request(node, ClaimRingLock(str(handler), handler, partial=True))
    world.run_until(world.now_us + SETTLE_US)


def test_a_call_is_delivered_by_all_members_and_acknowledged_once() -> None:
    world, nodes, caller = ring_of(3)
    world.call(caller, call(b"hello", ticket=4))
    world.run_until(world.now_us + SECOND)

    assert [bodies(node) for node in nodes] == [[b"hello"]] * 3
    (one,) = told(caller)
    assert isinstance(one, CallAcknowledged)
    (delivered,) = [one for one in nodes[0].stays[-1].news if isinstance(one, DataDelivered)]
    assert (one.ticket, one.timestamp) == (4, delivered.timestamp)
    assert one.list == nodes[0].ring.state.present.id


@pytest.mark.parametrize("seed", range(8))
def test_calls_of_two_strangers_and_messages_of_members_have_one_order(seed: int) -> None:
    world, nodes, caller = ring_of(4, loss=0.08, seed=seed)
    callers = [caller, world.caller(2)]
    services = [Service.RELIABLE, Service.FIFO, Service.AGREED, Service.SAFE]
    for turn in range(40):
        one = callers[turn % 2]
        event = call(f"{turn}".encode(), turn, service=services[turn % 4])
        world.at(world.now_us + 900 * turn, partial(world.call, one, event))
        world.at(world.now_us + 1_100 * turn, partial(world.submit, nodes[turn % 4], Service.AGREED))
    world.run_until(world.now_us + 10 * SECOND)

    assert len(bodies(nodes[0])) == 80
    assert all(bodies(node) == bodies(nodes[0]) for node in nodes)
    for at, one in enumerate(callers):
        mine = [int(body) for body in bodies(nodes[0]) if int(body) in range(at, 40, 2)]
        assert sorted(ticket.ticket for ticket in told(one)) == list(range(at, 40, 2))
        assert all(isinstance(each, CallAcknowledged) for each in told(one))
        assert len(mine) >= 20


def test_the_holder_of_the_handler_lock_answers_and_nobody_else_is_asked() -> None:
    world, nodes, caller = ring_of(3)
    hold(world, nodes[1], 2)
    world.call(caller, call(b"q", ticket=4, handler=2))
    world.run_until(world.now_us + SECOND)

    assert [node for node, _ in world.asked] == [nodes[1]]
    assert CallAnswered(4, b"4002 q", nodes[1].process) in told(caller)
    assert [one.again for _, one in world.asked] == [False]


def test_a_call_for_a_handler_that_nobody_has_is_answered_when_somebody_gets_it() -> None:
    world, nodes, caller = ring_of(3)
    world.call(caller, call(b"q", ticket=4, handler=2))
    world.run_until(world.now_us + SECOND)
    assert world.asked == []
    hold(world, nodes[2], 2)

    assert [(node, one.again) for node, one in world.asked] == [(nodes[2], True)]
    assert told(caller)[-1] == CallAnswered(4, b"4003 q", nodes[2].process)


@pytest.mark.parametrize("seed", range(6))
def test_under_losses_the_holder_is_asked_once_for_each_call(seed: int) -> None:
    world, nodes, caller = ring_of(3, loss=0.1, seed=seed)
    hold(world, nodes[0], 1)
    for turn in range(30):
        world.at(world.now_us + 3_000 * turn, partial(world.call, caller, call(b"q", turn, handler=1)))
    world.run_until(world.now_us + 10 * SECOND)

    assert sorted(one.ticket for one in told(caller) if isinstance(one, CallAnswered)) == list(range(30))
    assert len(world.asked) == 30
    assert all(bodies(node) == [b"q"] * 30 for node in nodes)


def test_a_holder_that_dies_is_followed_by_one_that_acts_again() -> None:
    world, nodes, caller = ring_of(3)
    hold(world, nodes[1], 2)
    hold(world, nodes[2], 2)
    world.silent.add(nodes[1].process)
    world.call(caller, call(b"q", ticket=4, handler=2))
    world.run_until(world.now_us + SECOND)
    assert [(node, one.again) for node, one in world.asked] == [(nodes[1], False)]
    world.crash(nodes[1])
    world.run_until(world.now_us + 3 * SECOND)

    assert [(node, one.again) for node, one in world.asked] == [(nodes[1], False), (nodes[2], True)]
    assert told(caller)[-1] == CallAnswered(4, b"4003 q", nodes[2].process)


def test_a_call_that_does_not_ask_for_it_is_not_acted_on_again() -> None:
    world, nodes, caller = ring_of(3)
    hold(world, nodes[1], 2)
    hold(world, nodes[2], 2)
    world.silent.add(nodes[1].process)
    world.call(caller, call(b"q", ticket=4, handler=2, repeat_reply=False))
    world.run_until(world.now_us + SECOND)
    world.crash(nodes[1])
    world.run_until(world.now_us + 3 * SECOND)

    assert [node for node, _ in world.asked] == [nodes[1]]


def test_a_message_of_a_member_with_a_handler_asks_its_holder_who_answers_the_group() -> None:
    world, nodes, _ = ring_of(3)
    hold(world, nodes[2], 3)
    event = SubmitData(Service.AGREED, b"q", handler=3)
    world.at(world.now_us, partial(world._step, nodes[0], event))
    world.run_until(world.now_us + SECOND)

    ((node, request),) = world.asked
    assert (node, request.stranger, request.again, request.body) == (nodes[2], False, False, b"q")


@pytest.mark.parametrize("seed", range(12))
def test_calls_are_delivered_once_through_the_loss_of_a_member(seed: int) -> None:
    world, nodes, caller = ring_of(4, loss=0.03, seed=seed)
    for turn in range(60):
        event = call(f"{turn}".encode(), turn, service=(Service.AGREED, Service.SAFE)[turn % 2])
        world.at(world.now_us + 4_000 * turn, partial(world.call, caller, event))
    dead = nodes[seed % 4]
    world.at(world.now_us + 60_000, partial(world.crash, dead))
    world.run_until(world.now_us + 20 * SECOND)

    acknowledged = {one.ticket for one in told(caller) if isinstance(one, CallAcknowledged)}
    failed = {one.ticket for one in told(caller) if isinstance(one, CallFailed)}
    assert acknowledged | failed == set(range(60))
    assert not acknowledged & failed
    for node in nodes:
        if node is not dead:
            delivered = [int(one) for one in bodies(node)]
            assert len(set(delivered)) == len(delivered)
            assert acknowledged <= set(delivered)
            assert bodies(node) == bodies(next(one for one in nodes if one is not dead))


def test_a_joiner_knows_the_strangers_and_delivers_nothing_of_before() -> None:
    world, nodes, caller = ring_of(2)
    world.call(caller, call(b"1"))
    world.run_until(world.now_us + SECOND)
    third = world.add(3, JoinRing("n3"))
    world.join(third)
    world.run_until(world.now_us + SECOND)
    world.call(caller, call(b"2"))
    world.run_until(world.now_us + SECOND)

    assert [bodies(node) for node in (*nodes, third)] == [[b"1", b"2"], [b"1", b"2"], [b"2"]]
    assert third.ring.state.strangers == nodes[0].ring.state.strangers == {caller.stranger.me: 2}


def test_a_restarted_stranger_at_the_same_port_is_another_one() -> None:
    world, nodes, caller = ring_of(2)
    world.call(caller, call(b"1"))
    world.run_until(world.now_us + SECOND)
    restarted = Caller(Stranger(caller.stranger.me._replace(nonce=5), "red", StrangerOptions(), SenderFlow()))
    world.callers[caller.stranger.me[:2]] = restarted
    world.call(restarted, call(b"2"))
    world.run_until(world.now_us + SECOND)

    assert bodies(nodes[0]) == [b"1", b"2"]
    assert len(told(restarted)) == 1


def test_calls_that_name_another_group_or_another_list_are_ignored() -> None:
    world, (first, _), caller = ring_of(2)
    world.call(caller, call(b"1"))
    world.run_until(world.now_us + SECOND)
    one = NonMemberData(
        DataId(PeerProcess(1, 1, 1), 1), Service.AGREED, 0, NO_HANDLER, "red", None, True, False, True, b"x"
    )
    members = first.ring.state.present
    elsewhere = ListId(members.id.epoch._replace(version=99), 1)
    wrong = [replace(one, group="blue"), replace(one, list=elsewhere), replace(one, first=False)]
    for packet in wrong:
        for node in world.nodes.values():
            world.at(world.now_us, partial(world._step, node, PacketArrived(packet, 0, one.id.source)))
    world.run_until(world.now_us + SECOND)

    assert bodies(first) == [b"1"]


def test_silent_strangers_are_flushed_by_one_ordered_change_when_the_table_fills() -> None:
    world, nodes, caller = ring_of(2, stranger_idle_us=3 * SECOND)
    others = [world.caller(number) for number in range(2, STRANGERS_MAX)]
    for one in others:
        world.call(one, call(b"x"))
        world.run_until(world.now_us + 5_000)
    assert len(nodes[0].ring.state.strangers) == STRANGERS_MAX - 2
    for _ in range(40):
        world.call(caller, call(b"y"))
        world.run_until(world.now_us + SECOND // 8)
    lists = [[one.list for one in node.stays[-1].news if isinstance(one, ListInstalled)] for node in nodes]

    assert lists[0][-2:] == lists[1][-2:]
    assert nodes[0].ring.state.strangers == nodes[1].ring.state.strangers
    assert len(nodes[0].ring.state.strangers) < STRANGERS_MAX // 2
    assert caller.stranger.me in nodes[0].ring.state.strangers
    assert bodies(nodes[0]).count(b"y") == 40


def test_a_flood_of_strangers_is_bounded_and_members_stay_together() -> None:
    world, nodes, caller = ring_of(3)
    dice = Random(4)
    for number in range(1_000):
        source = PeerProcess(1, 1, number)
        packet = NonMemberData(
            DataId(source, dice.randrange(1, 9)), Service.AGREED, 0, 1, "red", None, True, True, True, b"x"
        )
        for node in nodes:
            if dice.random() < 0.7:
                world.at(world.now_us, partial(world._step, node, PacketArrived(packet, 0, source)))
        world.run_until(world.now_us + 500)
    world.call(caller, call(b"last", ticket=9))
    world.run_until(world.now_us + 3 * SECOND)

    for node in nodes:
        data = node.ring.state.data.ordered
        # Sites that order one after the other may pass the limit, until the next list.
        assert len(data) <= 2 * STRANGERS_MAX
        assert len(node.ring.state.present) == 3
    assert bodies(nodes[0]) == bodies(nodes[1]) == bodies(nodes[2])
    hold(world, nodes[0], 1)
    assert {len(node.ring.state.present.strangers) for node in nodes} == {STRANGERS_MAX}
    assert nodes[0].ring.state.strangers == nodes[1].ring.state.strangers == nodes[2].ring.state.strangers


def test_replies_are_kept_in_number_and_bytes() -> None:
    _, (node, *_), _ = ring_of(1)
    clients = ClientCalls(node.ring.state)
    ids = [DataId(PeerProcess(1, 1, 1), seq) for seq in range(1, 3 * ANSWERS_MAX)]
    for one in ids:
        clients._request(one, 1, 1, b"", again=False)
        clients.reply(SubmitReply(one, bytes(10_000)))

    assert clients.answers_bytes == 10_000 * len(clients.answers) <= ANSWERS_BYTES_MAX
    for one in ids:
        clients._request(one, 1, 1, b"", again=False)
    assert len(clients.answers) == ANSWERS_MAX
    assert clients.answers_bytes == 0


def test_a_reply_that_nobody_asked_for_is_not_sent() -> None:
    _, (node, *_), _ = ring_of(1)

    assert [
        one
        for one in node.ring.step(SubmitReply(DataId(PeerProcess(1, 1, 1), 1), b"x"), 0)
        if isinstance(one, UnicastPacket) and isinstance(one.packet, NonMemberAck)
    ] == []


def test_a_member_acknowledges_only_what_it_has_delivered() -> None:
    world, nodes, caller = ring_of(2)
    world.call(caller, call(b"early"))
    world.run_until(world.now_us + SECOND)
    joiner = world.add(3, JoinRing("n3"))
    world.join(joiner)
    world.run_until(world.now_us + SECOND)
    again = NonMemberData(
        DataId(caller.stranger.me, 1), Service.AGREED, 0, NO_HANDLER, "red", None, True, False, True, b"early"
    )
    acknowledged: set[PeerProcess] = set()
    for turn in range(60):  # Every member is the token site at some of these times.
        for node in (*nodes, joiner):
            world.at(world.now_us + 7_000 * turn, partial(note_answer, world, node, again, acknowledged))
    world.run_until(world.now_us + SECOND)

    assert acknowledged == {node.process for node in nodes}


def note_answer(world: CallWorld, node: Node, packet: NonMemberData, out: set[PeerProcess]) -> None:
    arrived = PacketArrived(packet, 0, packet.id.source)
    for output in node.ring.step(arrived, world.now_us):
        if isinstance(output, UnicastPacket) and isinstance(output.packet, NonMemberAck):
            out.add(node.process)


@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_a_call_for_a_majority_is_refused_by_a_ring_that_is_not_primary(loss: float) -> None:
    world, nodes, caller = ring_of(3)
    world.faults.loss = loss
    world.call(caller, call(b"q", ticket=4, resilience=MAJORITY))
    world.run_until(world.now_us + SECOND)

    delivered = [one for node in nodes for one in node.stays[-1].news if isinstance(one, DataDelivered)]
    assert [one.withheld for one in delivered] == [True] * 3
    assert told(caller) == [CallFailed(4, False, refused=True)]
    assert caller.stranger.calls == {}


@pytest.mark.parametrize("service", [Service.RELIABLE, Service.FIFO])
def test_a_message_with_a_handler_has_a_place_in_the_order_whatever_its_service(service: Service) -> None:
    """Otherwise members could deliver it in different lists, and two of them hold the handler there."""
    world, nodes, _ = ring_of(3)
    hold(world, nodes[1], 1)
    event = SubmitData(service, b"q", handler=1)
    world.at(world.now_us, partial(world._step, nodes[0], event))
    world.run_until(world.now_us + SECOND)

    delivered = [one for node in nodes for one in node.stays[-1].news if isinstance(one, DataDelivered)]
    assert {(one.service, one.timestamp > 0) for one in delivered} == {(Service.AGREED, True)}
    assert [node for node, _asked in world.asked] == [nodes[1]]


def test_an_unreliable_call_is_delivered_once_and_nobody_is_asked_to_answer_it() -> None:
    world, nodes, caller = ring_of(2)
    hold(world, nodes[0], 1)
    world.faults.doubled = 1.0
    world.call(caller, call(b"q", handler=1, service=Service.UNRELIABLE))
    world.run_until(world.now_us + SECOND)

    assert [bodies(node) for node in nodes] == [[b"q"]] * 2
    assert world.asked == []


def test_a_reply_of_a_member_that_has_left_goes_nowhere() -> None:
    world, nodes, caller = ring_of(2)
    hold(world, nodes[0], 1)
    world.silent.add(nodes[0].process)
    world.call(caller, call(b"q", ticket=4, handler=1))
    world.run_until(world.now_us + SECOND)
    ((node, asked),) = world.asked
    world.leave(node)
    world.run_until(world.now_us + 10 * SECOND)

    assert node.ring.step(SubmitReply(asked.id, b"late"), world.now_us) == []
