"""The order of deliveries at one process (2.11, 2.12, 2.13(2)), and one order for all processes.

Queries find deliveries that come too late in the table of missteps, which is made in one pass over each process
in its order. One order for all means a graph of deliveries without circles; it is examined only where some
process steps back.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from graphlib import CycleError, TopologicalSorter
from itertools import combinations, pairwise
from typing import Final

from hopring.check.history import NEVER_SENT, History, HistoryNames, Life, first_delivery, position_of
from hopring.check.properties.property import (
    Clause,
    Property,
    PropertyInstance,
    Query,
    Violation,
    over_all_groups,
)
from hopring.check.properties.sql import TOTAL, Masks
from hopring.check.trace import MessageSent, ProcessName

CIRCLE_SHOWN_MAX: Final = 8
_EVENT: Final = ("process", "position")
_TWO_MESSAGES: Final = ("message", "other_message")


def _missteps(order: str) -> Query:
    return lambda _m: f"SELECT run, process, position FROM audit_missteps WHERE order = '{order}'"


# 2.11.


def fifo_order(history: History) -> Iterator[Violation]:
    """A FIFO message (or better) comes after each earlier message of its session that comes at all."""
    messages = history.messages
    for life in history.lives.values():
        # By session: the FIFO message that was sent last of those delivered.
        latest: dict[ProcessName, int] = {}
        for at, number in enumerate(life.delivered):
            place = messages.place[number]
            if place == NEVER_SENT:
                continue
            session = messages.sender[number]
            last = latest.get(session)
            if last is not None and place < messages.place[last]:
                facts = (life.process, position_of(history, life, at))
                yield Violation(facts, partial(_sent_before, history, life, number, last))
            elif messages.service[number].fifo:
                latest[session] = number


def _sent_before(history: History, life: Life, number: int, last: int) -> str:
    return f"{_too_late(history, life, number, last)}, which was sent later"


def _too_late(history: History, life: Life, number: int, last: int) -> str:
    names = HistoryNames(history)
    before = first_delivery(life, last)
    return f"{names.delivered(life.process, number)} after {names.number(last)} at {before.at_us} us"


_OVERTAKEN: Final = "{event}, after a FIFO or agreed message that the same session sent later"
FIFO_ORDER: Final = Property(
    "2.11 FIFO messages",
    (
        Clause(
            "",
            "A sender's messages keep their order.",
            "At one receiver a FIFO or agreed message comes after every reliable message that its session"
            " sent before it and that the receiver delivers at all. Gaps are legal. The order is that of the"
            " sends, not of the numbers.",
            "The same, over all groups of a session.",
        ),
    ),
    PropertyInstance(fifo_order, _missteps("fifo"), _OVERTAKEN, _EVENT, per_session=True),
    PropertyInstance(over_all_groups(fifo_order), _missteps("fifo"), _OVERTAKEN, _EVENT),
)

# 2.12.


def causal_order(history: History) -> Iterator[Violation]:
    """The stamp of a send is above those of all its sender had sent or delivered before.

    The thesis asks this of the stamps of all messages (definition 2.7), and of all it must be asked: a chain
    of causes may pass through a Reliable message. With 2.13(2), every receiver then keeps causal order.
    """
    service = history.messages.service
    for life in history.lives.values():
        top, heard = -1, 0  # The highest message so far; how many of the deliveries are in it.
        for sending in life.sends:
            if sending.event.service.loose:
                continue
            for number in life.numbers[heard : sending.heard]:
                if number > top and service[number].reliable:
                    top = number
            heard = sending.heard
            if sending.number <= top:
                facts = (life.process, sending.position)
                yield Violation(facts, partial(_out_of_cause, history, sending.event, top))
            top = max(top, sending.number)


def _out_of_cause(history: History, sent: MessageSent, top: int) -> str:
    names, messages = HistoryNames(history), history.messages
    life = history.lives[sent.process]
    # Its own send counts even if another sent that message, too, and was the first.
    cause = next((sending.event for sending in life.sends if sending.number == top), None)
    if cause is not None:
        before = f"its {names.number(top)} at {cause.at_us} us"
    else:
        delivery = first_delivery(life, top)
        before = f"it had delivered {names.number(top)} at {delivery.at_us} us"
    stamps = f"the stamp {names.ord(sent.ord)} is not above {names.ord(messages.ord[top])}"
    return f"{names.send(sent)} after {before}, but {stamps}"


_NOT_ABOVE: Final = "{event}, with a stamp that is not above all that it had sent or delivered before"
CAUSAL_ORDER: Final = Property(
    "2.12 causal messages",
    (
        Clause(
            "",
            "Causes come first.",
            "The stamp of each reliable send is above the stamps of all that the sender sent or delivered"
            " before. With 2.13(2) nobody then sees an effect before its cause. It has to hold for Reliable"
            " sends too: a chain of causes may pass through one.",
            "The same, over all groups of a session.",
        ),
    ),
    PropertyInstance(causal_order, _missteps("causal"), _NOT_ABOVE, _EVENT),
    PropertyInstance(over_all_groups(causal_order), _missteps("causal"), _NOT_ABOVE, _EVENT),
)

# 2.13(2).


def agreed_order(history: History) -> Iterator[Violation]:
    """No message of any reliable service after an agreed one with a higher stamp.

    Not the same as rising stamps: Reliable and FIFO messages may come before others with lower stamps.
    """
    service = history.messages.service
    for life in history.lives.values():
        top = -1  # The highest agreed message so far.
        for at, number in enumerate(life.delivered):
            if number < top:
                facts = (life.process, position_of(history, life, at))
                yield Violation(facts, partial(_stamped_below, history, life, number, top))
            elif service[number].total:
                top = number


def _stamped_below(history: History, life: Life, number: int, top: int) -> str:
    return f"{_too_late(history, life, number, top)}, which has a higher stamp"


_BEHIND: Final = "{event}, after an agreed message with a higher stamp"
AGREED_ORDER: Final = Property(
    "2.13(2) agreed messages come in their order",
    (
        Clause(
            "",
            "Agreed messages come in order.",
            "After an agreed message, a process delivers no reliable one with a lower stamp. Reliable and FIFO"
            " messages may come early, so stamps need not rise throughout.",
            "The same, over all groups of a session.",
        ),
    ),
    PropertyInstance(agreed_order, _missteps("agreed"), _BEHIND, _EVENT),
    PropertyInstance(over_all_groups(agreed_order), _missteps("agreed"), _BEHIND, _EVENT),
)

# One order.


def one_order(history: History) -> Iterator[Violation]:
    """There is one order that the agreed deliveries of all processes follow, whatever their stamps say."""
    service = history.messages.service
    courses = {
        life.process: list(dict.fromkeys(n for n in life.delivered if service[n].total))
        for life in history.lives.values()
    }
    if all(course == sorted(course) for course in courses.values()):
        return
    circle = circle_of(edges_of(courses.values()))
    if circle:
        facts = (history.messages.ids[circle[0]], history.messages.ids[circle[1]])
        yield Violation(facts, partial(_no_one_order, history, courses, circle))


def edges_of(courses: Iterable[list[int]]) -> list[tuple[int, int]]:
    """The successors of each message at each process, between the lowest and the highest step back."""
    listed = [course for course in courses if course]
    back = [(first, second) for course in listed for first, second in pairwise(course) if second < first]
    if not back:
        return []
    low, high = min(second for _, second in back), max(first for first, _ in back)
    between = [[number for number in course if low <= number <= high] for course in listed]
    return [edge for course in between for edge in pairwise(course)]


def _no_one_order(history: History, courses: dict[ProcessName, list[int]], circle: list[int]) -> str:
    names = HistoryNames(history)
    for one, other in combinations(courses, 2):
        swapped = _swapped(courses[one], courses[other])
        if swapped is not None:
            return _disagreement(names, one, other, swapped)
    return circle_sentence([*map(names.number, circle)])


def _swapped(course: list[int], other: list[int]) -> tuple[int, int] | None:
    """Two messages that come in this order in the one course, and in the opposite order in the other."""
    place = {number: index for index, number in enumerate(course)}
    for second, first in pairwise(number for number in other if number in place):
        if place[first] < place[second]:
            return first, second
    return None


def _disagreement(names: HistoryNames, one: ProcessName, other: ProcessName, swapped: tuple[int, int]) -> str:
    first, second = map(names.number, swapped)
    orders = f"{first} before {second}, {names.process(other)} delivered {second} before {first}"
    return f"{names.process(one)} delivered {orders}"


def circle_of(edges: Iterable[tuple[int, int]]) -> list[int]:
    """The places of one circle, each before the next, beginning with the lowest; empty if there is none.

    Edges are gone through in their order, so that the same ones give the same circle.
    """
    graph: TopologicalSorter[int] = TopologicalSorter()
    for before, place in sorted(set(edges)):
        graph.add(place, before)
    try:
        graph.prepare()
    except CycleError as error:
        circle: list[int] = error.args[1][1:]
        lowest = circle.index(min(circle))
        return [*circle[lowest:], *circle[:lowest]]
    return []


def circle_sentence(names: list[str]) -> str:
    """A circle of messages from the first round to itself; of a long one only the beginning and the end."""
    shown = [*names, names[0]]
    if len(shown) > CIRCLE_SHOWN_MAX:
        shown[CIRCLE_SHOWN_MAX - 2 : -2] = [f"{len(shown) - CIRCLE_SHOWN_MAX} more"]
    return f"each before the next, at one process or another: {', '.join(shown)}"


def _steps_back(course: str) -> str:
    """The successors of each message at each process, between the lowest and the highest step back."""
    return f"""
    WITH course AS ({course}),
    steps AS (
      SELECT run, place, lag(place) OVER (PARTITION BY run, process ORDER BY position) AS before FROM course),
    back AS (SELECT run, min(place) AS low, max(before) AS high FROM steps WHERE place < before GROUP BY run),
    between AS (
      SELECT c.* FROM course c JOIN back b ON b.run = c.run AND c.place BETWEEN b.low AND b.high)
    SELECT DISTINCT run, place, before
    FROM (SELECT run, place, lag(place) OVER (PARTITION BY run, process ORDER BY position) AS before
          FROM between)
    WHERE before IS NOT NULL
    """


def _one_order_query(_m: Masks) -> str:
    """Edges of the graph, of runs where agreed messages do not come in the order of their places.

    Steps back are in some legs, or between two; the places of these legs are known, and hold all of them.
    """
    return f"""
    SELECT DISTINCT run, place, before
    FROM (SELECT run, place, lag(place) OVER (PARTITION BY run, process ORDER BY position) AS before FROM (
      SELECT s.run, s.process, d.place, min(d.position) AS position
      FROM (SELECT /*+ BROADCAST(b) */ e.*, b.run AS of_run
            FROM audit_deliveries e JOIN (
                 SELECT run, min(lowest_agreed) AS low,
                        max(greatest(highest_agreed, carried_agreed)) AS high
                 FROM audit_courses WHERE unsorted OR lowest_agreed < carried_agreed GROUP BY run) b
                 ON e.place BETWEEN b.low AND b.high
            WHERE e.service IN {TOTAL}) d
           JOIN audit_stays s ON s.id = d.stay_id AND s.run = d.of_run
      GROUP BY s.run, s.process, d.place))
    WHERE before IS NOT NULL
    """


def _one_order_at_sessions_query(_m: Masks) -> str:
    return _steps_back(f"""
      SELECT s.run, s.process, m.place, min(d.position) AS position
      FROM audit_deliveries d JOIN audit_messages m ON m.key = d.key
           JOIN audit_sessions s ON s.id = d.session_id JOIN audit_unsorted u ON u.run = s.run
      WHERE d.head AND m.service IN {TOTAL} GROUP BY s.run, s.process, m.place""")


ONE_ORDER: Final = Property(
    "one order for common agreed messages",
    (
        Clause(
            "",
            "There is one order.",
            "A cross-check of ours: no two processes deliver two agreed messages in opposite orders, and no"
            " more of them go in a circle. It does not look at stamps, except to be quick.",
            "The same, over all groups of a session.",
        ),
    ),
    PropertyInstance(one_order, _one_order_query, "", _TWO_MESSAGES),
    PropertyInstance(over_all_groups(one_order), _one_order_at_sessions_query, "", _TWO_MESSAGES),
)

PROPERTIES: Final[tuple[Property, ...]] = (FIFO_ORDER, CAUSAL_ORDER, AGREED_ORDER, ONE_ORDER)
