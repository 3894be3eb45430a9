"""Mixed bundles, whose messages go to one group each: recipients, order and credit."""

import random
from collections.abc import Callable
from functools import partial

import pytest
from tests.unit.session.fake_daemon import FakeDaemon

from hopring.client.core import ClientCore
from hopring.client.events import Event, Message
from hopring.client.receiving.runs import MessageRun
from hopring.client.session_base import message_of
from hopring.groups.delivery import KINDS_MAX
from hopring.services import Service
from hopring.spooler import RunBuilder

GROUPS = ("a", "b", "c")


def member(fake: FakeDaemon, number: int, name: str, *groups: str) -> ClientCore:
    core = fake.client(number, name)
    for group in groups:
        core.join(group)
        fake.exchange(number, core)
    drain(core)
    return core


def drain(core: ClientCore, group: str | None = None) -> list[Event]:
    return list(iter(lambda: core.take(group), None))


def one(core: ClientCore, group: str | None) -> list[Event]:
    event = core.take(group)
    return [] if event is None else [event]


def messages(events: list[Event]) -> list[tuple[tuple[str, ...], bytes]]:
    return [(one.groups, one.data) for one in events if isinstance(one, Message)]


def send(
    fake: FakeDaemon, number: int, core: ClientCore, *what: tuple[str, bytes], self_discard: bool = False
) -> None:
    """Sends all of it in one turn."""
    for group, data in what:
        if not core.try_send(group, data, Service.AGREED, 3, self_discard):
            core.send(message_of(group, data, Service.AGREED, 3, self_discard))
    fake.exchange(number, core)


WHAT = (("a", b"1"), ("b", b"2"), ("a", b"3"), ("c", b"4"), ("c", b"5"))


def test_a_member_of_all_groups_gets_all_messages_in_one_run() -> None:
    fake = FakeDaemon()
    anna = member(fake, 1, "anna", *GROUPS)
    send(fake, 1, anna, *WHAT)

    (run,) = anna.take_many(100, None).runs
    assert (run.mixed, run.groups, run.group_indexes.tolist()) == (True, GROUPS, [0, 1, 0, 2, 2])
    assert [(one.groups, one.data, one.type) for one in run.messages()] == [((g,), data, 3) for g, data in WHAT]
    assert [(part.groups, part.order, part.bodies()) for part in run.apart()] == [
        (("a",), run.order, [b"1"]),
        (("b",), run.order + 1, [b"2"]),
        (("a",), run.order + 2, [b"3"]),
        (("c",), run.order + 3, [b"4", b"5"]),
    ]


def test_a_member_of_some_groups_gets_only_their_messages() -> None:
    fake = FakeDaemon()
    anna = member(fake, 1, "anna")
    others = {
        2: member(fake, 2, "bert", "a", "c"),
        3: member(fake, 3, "cleo", "b"),
        4: member(fake, 4, "dora", "c", "a"),
        5: member(fake, 5, "emil", "d"),
    }
    send(fake, 1, anna, *WHAT)
    for number, core in others.items():
        fake.exchange(number, core)

    got = {number: messages(drain(core)) for number, core in others.items()}
    assert got[2] == got[4] == [((group,), data) for group, data in WHAT if group in "ac"]
    assert got[3] == [(("b",), b"2")]
    assert got[5] == []


def test_private_groups_and_senders_that_do_not_want_their_own() -> None:
    fake = FakeDaemon()
    anna, bert = member(fake, 1, "anna", "a"), member(fake, 2, "bert", "a")
    private = bert.welcomed.private_group
    send(fake, 1, anna, ("a", b"all"), (private, b"one"), ("a", b"more"), self_discard=True)
    for number, core in ((1, anna), (2, bert)):
        fake.exchange(number, core)

    assert messages(drain(anna)) == []
    assert messages(drain(bert)) == [(("a",), b"all"), ((private,), b"one"), (("a",), b"more")]


def test_readers_of_groups_and_of_all_share_it() -> None:
    fake = FakeDaemon()
    anna = member(fake, 1, "anna", *GROUPS)
    send(fake, 1, anna, *WHAT)
    send(fake, 1, anna, ("b", b"6"), ("a", b"7"))

    assert messages(one(anna, None)) == [(("a",), b"1")]
    assert anna.stream.has(2, "c")
    assert not anna.stream.has(3, "c")
    assert messages(one(anna, "c")) == [(("c",), b"4")]
    assert messages(drain(anna, "a")) == [(("a",), b"3"), (("a",), b"7")]
    assert messages(drain(anna)) == [(("b",), b"2"), (("c",), b"5"), (("b",), b"6")]
    assert anna.stream.credit_bytes == 0


def test_a_bundle_read_in_parts_yields_no_message_twice() -> None:
    fake = FakeDaemon()
    anna = member(fake, 1, "anna", *GROUPS)
    send(fake, 1, anna, *WHAT)
    entry = anna.entry(None)
    assert entry is not None
    assert entry.message().data == b"1"
    anna.take("b")

    assert entry.at == entry.end
    assert messages(drain(anna)) == [(("a",), b"3"), (("c",), b"4"), (("c",), b"5")]


@pytest.mark.parametrize("seed", range(20))
def test_in_any_order_of_reading_each_message_comes_once_and_all_credit_is_returned(seed: int) -> None:
    dice = random.Random(seed)
    fake = FakeDaemon()
    anna = member(fake, 1, "anna", *GROUPS)
    sent = [(dice.choice(GROUPS), b"%d" % at + bytes(dice.randrange(50))) for at in range(60)]
    waiting = sent[:]
    got: list[tuple[tuple[str, ...], bytes]] = []
    ways: list[Callable[[], list[Event]]] = [
        *[partial(one, anna, group) for group in (None, *GROUPS)],
        lambda: list(anna.take_many(dice.randint(1, 5), None)),
        lambda: list(anna.take_many(dice.randint(1, 5), dice.choice(GROUPS))),
    ]
    while len(got) < len(sent):
        count = dice.randint(0, min(8, len(waiting)))
        send(fake, 1, anna, *waiting[:count])
        del waiting[:count]
        got += messages(dice.choice(ways)())

    for group in GROUPS:
        assert [data for groups, data in got if groups == (group,)] == [d for name, d in sent if name == group]
    assert (anna.stream.credit_bytes, anna.outgoing.charged_bytes) == (0, 0)


def test_spools_have_each_message_in_its_group_only() -> None:
    fake = FakeDaemon()
    anna = member(fake, 1, "anna", *GROUPS)
    send(fake, 1, anna, *WHAT)
    spooling = RunBuilder()
    for group in ("a", "c"):
        spooling.open(group)
    batch = anna.take_many(100, None)
    assert all(isinstance(part, MessageRun) for part in batch.parts)
    runs = spooling.runs(batch)

    assert {group: [run.header.groups for run in some] for group, some in runs.items()} == {
        "a": [("a",), ("a",)],
        "c": [("c",)],
    }
    assert [len(run.types) for run in runs["c"]] == [2]


def test_a_table_has_the_groups_of_each_message() -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow: make arrow")
    fake = FakeDaemon()
    anna = member(fake, 1, "anna", *GROUPS)
    send(fake, 1, anna, *WHAT * 5)
    table = anna.take_many(100, None).to_arrow()

    assert table.column("groups").to_pylist() == [[group] for group, _ in WHAT * 5]
    assert table.column("data").to_pylist() == [data for _, data in WHAT * 5]


def test_receivers_of_many_kinds_get_their_messages_in_order() -> None:
    fake = FakeDaemon()
    anna = member(fake, 1, "anna")
    names = [f"g{at}" for at in range(KINDS_MAX + 4)]
    dice = random.Random(1)
    others = {
        number: (member(fake, number, f"m{number}", *wanted), wanted)
        for number in range(2, KINDS_MAX + 12)
        for wanted in [dice.sample(names, dice.randint(1, len(names)))]
    }
    what = [(dice.choice(names), b"%d" % at) for at in range(50)]
    send(fake, 1, anna, *what)

    for number, (core, wanted) in others.items():
        fake.exchange(number, core)
        assert messages(drain(core)) == [((group,), data) for group, data in what if group in wanted]


def test_a_piece_of_a_mixed_bundle_makes_its_own_messages_only() -> None:
    fake = FakeDaemon()
    anna = member(fake, 1, "anna", *GROUPS)
    send(fake, 1, anna, *WHAT)
    anna.take("b")
    entry = anna.entry("c")

    assert entry is not None
    assert entry.message().data == b"4"
    assert [one.data for one in entry.made or []] == [b"4", b"5"]


def test_after_a_group_was_read_alone_later_bundles_are_split_by_group() -> None:
    fake = FakeDaemon()
    anna = member(fake, 1, "anna", *GROUPS)
    assert anna.take("a") is None
    send(fake, 1, anna, *WHAT)

    assert [entry.groups for entry in anna.stream.entries.values()] == [("a",), ("b",), ("a",), ("c",)]
    assert messages(drain(anna)) == [((group,), data) for group, data in WHAT]
    assert anna.stream.credit_bytes == 0
