"""The order of deliveries at one process: 2.11, 2.12 and 2.13(2); and between processes."""

from graphlib import CycleError, TopologicalSorter
from itertools import combinations, pairwise

from hopring.check.evs.history import History, Life
from hopring.check.evs.messages import NEVER_SENT
from hopring.check.evs.words import Words, first_delivery
from hopring.check.trace import Process, Sent
from hopring.check.verdict import Verdict, broken, holds

FIFO = "2.11 FIFO messages"
CAUSAL = "2.12 causal messages"
AGREED = "2.13(2) agreed messages come in their order"
AGREEMENT = "one order for common agreed messages"

CIRCLE_SHOWN_MAX = 8


def fifo_order(history: History) -> Verdict:
    """2.11: a FIFO message (or better) comes after each earlier message of its session that comes at all."""
    messages = history.messages
    for life in history.lives.values():
        latest: dict[Process, int] = {}  # By session: the FIFO message that was sent last of those delivered.
        for number in life.delivered:
            place = messages.place[number]
            if place == NEVER_SENT:
                continue
            session = messages.sender[number]
            last = latest.get(session)
            if last is not None and place < messages.place[last]:
                return broken(FIFO, _too_late(history, life, number, last) + ", which was sent later")
            if messages.service[number].fifo:
                latest[session] = number
    return holds(FIFO)


def causal_order(history: History) -> Verdict:
    """2.12: the stamp of a send is above those of all its sender had sent or delivered before.

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
                return broken(CAUSAL, _out_of_cause(history, sending.event, top))
            top = sending.number
    return holds(CAUSAL)


def _out_of_cause(history: History, sent: Sent, top: int) -> str:
    words, messages = Words(history), history.messages
    life = history.lives[sent.process]
    # Its own send counts even if another sent that message, too, and was the first.
    cause = next((sending.event for sending in life.sends if sending.number == top), None)
    if cause is not None:
        before = f"its {words.number(top)} at {cause.at_us} us"
    else:
        delivery = first_delivery(history, life, top)
        before = f"it had delivered {words.number(top)} at {delivery.at_us} us"
    stamps = f"the stamp {words.ord(sent.ord)} is not above {words.ord(messages.ord[top])}"
    return f"{words.send(sent)} after {before}, but {stamps}"


def agreed_order(history: History) -> Verdict:
    """2.13(2): no message of any reliable service after an agreed one with a higher stamp.

    Not the same as rising stamps: Reliable and FIFO messages may come before others with lower stamps.
    """
    service = history.messages.service
    for life in history.lives.values():
        top = -1  # The last agreed message, and therefore the highest.
        for number in life.delivered:
            if number < top:
                return broken(AGREED, _too_late(history, life, number, top) + ", which has a higher stamp")
            if service[number].total:
                top = number
    return holds(AGREED)


def _too_late(history: History, life: Life, number: int, last: int) -> str:
    words = Words(history)
    before = first_delivery(history, life, last)
    return f"{words.delivered(life.process, number)} after {words.number(last)} at {before.at_us} us"


def order_agreement(history: History) -> Verdict:
    """There is one order that the agreed deliveries of all processes follow, whatever their stamps say."""
    service = history.messages.service
    courses = {
        life.process: list(dict.fromkeys(n for n in life.delivered if service[n].total))
        for life in history.lives.values()
    }
    if all(course == sorted(course) for course in courses.values()):
        return holds(AGREEMENT)
    for one, other in combinations(courses, 2):
        swapped = _swapped(courses[one], courses[other])
        if swapped is not None:
            return broken(AGREEMENT, _disagreement(Words(history), one, other, swapped))
    return _one_order_for_all(history, courses)


def _swapped(course: list[int], other: list[int]) -> tuple[int, int] | None:
    """Two messages that come in this order in the one course, and in the opposite order in the other."""
    place = {number: index for index, number in enumerate(course)}
    for second, first in pairwise(number for number in other if number in place):
        if place[first] < place[second]:
            return first, second
    return None


def _disagreement(words: Words, one: Process, other: Process, swapped: tuple[int, int]) -> str:
    first, second = map(words.number, swapped)
    ways = f"{first} before {second}, {words.process(other)} delivered {second} before {first}"
    return f"{words.process(one)} delivered {ways}"


def _one_order_for_all(history: History, courses: dict[Process, list[int]]) -> Verdict:
    """No two disagree; three or more may still go round in a circle."""
    words = Words(history)
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for course in courses.values():
        for first, second in pairwise(course):
            sorter.add(second, first)
    try:
        sorter.prepare()
    except CycleError as error:
        circle: list[int] = error.args[1]
        return broken(
            AGREEMENT, f"each before the next, at one process or another: {_round(circle[1:], words)}"
        )
    return holds(AGREEMENT)


def _round(circle: list[int], words: Words) -> str:
    """From the lowest message round to itself; of a long way only the beginning and the end."""
    lowest = circle.index(min(circle))
    names = [words.number(number) for number in (*circle[lowest:], *circle[: lowest + 1])]
    if len(names) > CIRCLE_SHOWN_MAX:
        names[CIRCLE_SHOWN_MAX - 2 : -2] = [f"{len(names) - CIRCLE_SHOWN_MAX} more"]
    return ", ".join(names)
