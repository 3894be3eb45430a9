"""Queries of clients: pages, turns, and the cost of a flood of queries."""

import pytest
from tests.unit.session.fake_daemon import ME, VIEW, FakeDaemon
from tests.unit.session.joined_sessions import joined

from hopring.client import queries
from hopring.client.core import ClientCore
from hopring.client.errors import RequestRefused, SessionClosed
from hopring.client.queries import DaemonView, GroupInfo, Query, Result
from hopring.engine import Installed, TransitionalSignal
from hopring.ids import ViewId
from hopring.links.events import Tick
from hopring.reason import ReasonKind, ViewReason
from hopring.session.frames import FrameKind, encode_frame
from hopring.session.options import REQUEST_COST_BYTES, SessionOptions
from hopring.session.protocol import ControlMessage, NoAnswer, QueryRequest, ViewAnswer, encode_control
from hopring.session.queries import PAUSE_US, UNTAKEN_MAX, UNTAKEN_US, view_text

NEXT = ViewId(2, ME.daemon, ME.incarnation)
PAGE = 8


def small_pages() -> FakeDaemon:
    fake = FakeDaemon()
    fake.server.queries.page_items = PAGE
    return fake


def turn(fake: FakeDaemon, number: int, core: ClientCore) -> None:
    """The client sends its output, and the daemon handles what is due."""
    fake.exchange(number, core)
    fake.now_us = max(fake.now_us, min(fake.server.wake_at_us, fake.now_us + 1_000_000))
    fake.step(Tick())
    fake.exchange(number, core)


def ask(fake: FakeDaemon, number: int, core: ClientCore, query: Query[Result]) -> Result:
    question = next(query)
    while True:
        serial = core.ask(*question)
        for _ in range(3):
            turn(fake, number, core)
            if core.has_query_answer(serial):
                break
        try:
            question = query.send(core.query_answers.pop(serial))
        except StopIteration as end:
            result: Result = end.value
            return result


def test_groups_come_in_pages_with_their_members_counted() -> None:
    fake = small_pages()
    names = [f"g{number:04}" for number in range(2 * PAGE + 1)]
    anna = joined(fake, 1, "anna", *names)
    joined(fake, 2, "bert", "g0001")

    found = ask(fake, 1, anna, queries.groups())

    assert [one.name for one in found] == names
    assert found[:2] == (GroupInfo("g0000", 1, 1), GroupInfo("g0001", 2, 2))


def test_no_groups_is_an_answer_too() -> None:
    fake = FakeDaemon()
    anna = joined(fake, 1, "anna")

    assert ask(fake, 1, anna, queries.groups()) == ()
    assert ask(fake, 1, anna, queries.members("nobody's")).id is None


def test_members_come_in_pages_with_the_view_of_their_group() -> None:
    fake = small_pages()
    names = sorted([f"m{number}" for number in range(PAGE + 3)])
    for number, name in enumerate(names, 2):
        joined(fake, number, name, "g", membership=False)
    anna = joined(fake, 1, "anna")

    found = ask(fake, 1, anna, queries.members("g"))

    assert [one.name for one in found.members] == names
    assert {one.daemon for one in found.members} == {"eu1"}
    assert found.id == fake.server.groups.table.groups[found.group].id  # type: ignore[index]


def test_a_group_that_changes_between_two_pages_is_read_again() -> None:
    fake = small_pages()
    for number in range(2, PAGE + 4):
        joined(fake, number, f"m{number:04}", "g", membership=False)
    anna = joined(fake, 1, "anna")
    query = queries.members("g")
    serial = anna.ask(*next(query))
    turn(fake, 1, anna)
    question = query.send(anna.query_answers.pop(serial))
    fake.lose(2)
    serial = anna.ask(*question)
    turn(fake, 1, anna)

    assert query.send(anna.query_answers.pop(serial)) == ("members", "g", "")


def test_the_view_has_its_age_and_cause_and_a_watcher_misses_none() -> None:
    fake = FakeDaemon()
    anna = joined(fake, 1, "anna")
    fake.now_us += 2_000_000
    first = ask(fake, 1, anna, queries.view(None))
    assert (first.id, first.members, first.cause) == (VIEW, ("eu1",), "start")
    assert first.age_seconds >= 2.0

    serial = anna.ask("view", "", first.text)
    turn(fake, 1, anna)
    assert not anna.has_query_answer(serial)
    for view, left in ((NEXT, VIEW), (ViewId(3, ME.daemon, ME.incarnation), NEXT)):
        fake.step(TransitionalSignal(left, (ME,), view))
        fake.step(Installed(view, (ME,), (ME,), "merge"))
    turn(fake, 1, anna)

    query_answers = anna.query_answers.pop(serial)
    assert query_answers is not None
    second = DaemonView(query_answers.id, ("eu1",), "merge", 0.0)  # type: ignore[union-attr, arg-type]
    assert second.id == NEXT
    assert ask(fake, 1, anna, queries.view(second)).id.counter == 3
    assert second.text == view_text(NEXT)


def test_an_unknown_query_is_refused_and_the_session_continues() -> None:
    fake = FakeDaemon()
    anna = joined(fake, 1, "anna", "g")

    with pytest.raises(RequestRefused, match="unknown question"):
        ask(fake, 1, anna, queries.daemon())
    assert [one.name for one in ask(fake, 1, anna, queries.groups())] == ["g"]


def flood(count: int, what: str = "groups") -> bytes:
    words: list[ControlMessage] = [QueryRequest(serial, what) for serial in range(count)]
    return b"".join(map(encode_control, words))


def test_a_flood_is_answered_one_by_one_with_pauses_and_others_have_their_turn() -> None:
    fake = FakeDaemon()
    anna = joined(fake, 1, "anna", "g")
    bert = joined(fake, 2, "bert")
    fake.say(1, flood(1000))
    assert fake.fetch(1) == b"", "answered in the turn of the query"
    serial = bert.ask("groups")
    fake.exchange(2, bert)

    steps = 0
    while not bert.has_query_answer(serial):
        fake.now_us = max(fake.now_us, fake.server.wake_at_us)
        fake.step(Tick())
        fake.fetch(1)
        fake.exchange(2, bert)
        steps += 1
    assert steps <= 3
    begin_us = fake.now_us
    for _ in range(10):
        fake.now_us = max(fake.now_us, fake.server.wake_at_us)
        fake.step(Tick())
        fake.fetch(1)
    assert fake.now_us - begin_us >= 9 * PAUSE_US
    assert anna.ended is None


def test_more_queries_than_the_window_holds_end_only_their_session() -> None:
    fake = FakeDaemon(SessionOptions(window_bytes=8 * REQUEST_COST_BYTES))
    joined(fake, 1, "anna")
    bert = joined(fake, 2, "bert")
    fake.say(1, flood(9))

    assert "out_of_window" in fake.closed[1][1]
    assert ask(fake, 2, bert, queries.groups()) == ()


def test_queries_are_credited_when_they_are_answered() -> None:
    fake = FakeDaemon(SessionOptions(window_bytes=8 * REQUEST_COST_BYTES))
    anna = joined(fake, 1, "anna")
    for _ in range(50):
        ask(fake, 1, anna, queries.view(None))
    assert anna.may_ask()


def test_a_client_that_does_not_read_answers_gets_no_more_of_them() -> None:
    fake = FakeDaemon()
    joined(fake, 1, "anna", *[f"g{number}" for number in range(300)])
    fake.say(1, flood(1000))
    for _ in range(200):
        fake.now_us = max(fake.now_us, fake.server.wake_at_us)
        fake.step(Tick())
    session = fake.server.sessions[1]
    assert len(session.control_queue) <= UNTAKEN_MAX + 1, "a credit is missing"
    assert fake.now_us >= 100 * UNTAKEN_US, "the client is polled"


def test_a_view_names_its_daemons_and_does_not_tell_their_incarnations() -> None:
    fake = FakeDaemon()
    anna = joined(fake, 1, "anna")
    serial = anna.ask("view")
    turn(fake, 1, anna)
    answer = anna.query_answers[serial]

    assert isinstance(answer, ViewAnswer)
    assert answer.members == ("eu1",)


def test_a_session_that_ends_leaves_no_queries_behind() -> None:
    fake = FakeDaemon()
    anna = joined(fake, 1, "anna")
    fake.say(1, flood(5))
    anna.ask("view", "", view_text(VIEW))
    fake.exchange(1, anna)
    fake.lose(1)
    for _ in range(3):
        fake.now_us += 1_000_000
        fake.step(Tick())

    assert fake.server.queries.wake_at_us > fake.now_us
    assert fake.server.queries.queued_bytes(1) == 0


def test_an_invalid_answer_ends_the_clients_session() -> None:
    fake = FakeDaemon()
    anna = joined(fake, 1, "anna")
    serial = anna.ask("groups")
    anna.receive(encode_frame(FrameKind.ANSWER, b"\x92\x01\xc4\x01\xc1"))

    with pytest.raises(SessionClosed, match="sent an invalid frame"):
        anna.has_query_answer(serial)


def test_the_reason_of_a_view_has_names_and_an_older_daemon_has_none() -> None:
    fake = FakeDaemon()
    anna = joined(fake, 1, "anna")
    assert ask(fake, 1, anna, queries.view(None)).reason is None

    reason = ViewReason(ReasonKind.STALL, ME.daemon, None, 3_200_000, 400_000)
    fake.step(TransitionalSignal(VIEW, (ME,), NEXT))
    fake.step(Installed(NEXT, (ME,), (ME,), "did not run", reason=reason))
    facts = ask(fake, 1, anna, queries.view(None)).reason

    assert facts == queries.ReasonFacts("stall", "eu1", "", "", 3.2, 0.4)
    assert facts.last_heard_seconds == pytest.approx(3.6)
    older = queries.view(None)
    next(older)
    older.send(ViewAnswer(NEXT, ("eu1",), "start", 7, True))
    with pytest.raises(StopIteration) as end:
        older.send(NoAnswer("unknown question reason", "use a daemon of the client's version"))
    assert end.value.value.reason is None
