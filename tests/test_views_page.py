"""The pictures of docs/views.md are what happens, and so is what the page says of them."""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from docs.pictures.make import HERE, STORIES, Story

from hopring import SAFE, Message, Transition, View
from hopring.check.evs import first_broken
from hopring.check.evs_c import first_broken_c
from hopring.check.picture import draw
from hopring.check.trace import ClientDelivered, ClientSent, Event, GroupInstalled, GroupSignal, Installed
from hopring.client.events import Member
from hopring.groups.names import GroupViewId
from hopring.ids import ViewId
from hopring.session.place import Place

PAGE = (Path(__file__).parent.parent / "docs" / "views.md").read_text()
NAMES = {1: "anna", 2: "bert", 3: "carl", 4: "dora"}
SIGNAL = "signal"


@cache
def story(name: str) -> Story:
    return STORIES[name]()


def seen(name: str) -> dict[str, list[str]]:
    """What each client of a story sees in its picture: messages by number, signals, views with their T."""
    told = story(name)
    from_us = told.wish.from_us or 0
    numbers: dict[object, str] = {}
    found: dict[str, list[str]] = {}
    for event in told.history:
        if event.at_us < from_us or event.process.session not in NAMES:
            continue
        if isinstance(event, ClientSent):
            numbers[event.message] = str(len(numbers) + 1)
        elif (words := _seen(event, numbers)) is not None:
            found.setdefault(NAMES[event.process.session], []).append(words)
    return found


def _seen(event: Event, numbers: dict[object, str]) -> str | None:
    match event:
        case ClientDelivered():
            return numbers[event.message]
        case GroupSignal():
            return SIGNAL
        case GroupInstalled():
            members, together = [
                [NAMES[one.session][0] for one in them] for them in (event.members, event.together)
            ]
            return f"{''.join(members)} with {''.join(together)}"
        case _:
            return None


@pytest.mark.slow
@pytest.mark.parametrize("name", STORIES)
def test_drawing_a_picture_again_gives_the_same_bytes(name: str) -> None:
    told = story(name)

    assert draw(told.history, told.wish) == (HERE / f"{name}.svg").read_text(), (
        "run `make pictures`, and look at it"
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", STORIES)
def test_the_runs_keep_what_is_promised(name: str) -> None:
    told = story(name)

    assert first_broken(told.history, quiet_end=True, components=told.components) is None
    assert first_broken_c(told.history, quiet_end=True, components=told.components) is None


def test_the_page_shows_all_pictures() -> None:
    assert re.findall(r"\]\(pictures/(\w+)\.svg\)", PAGE) == list(STORIES)
    elsewhere = {"braid", "peers"}  # In docs/pipeline.md and docs/performance.md; what draws them is tested.
    assert {path.stem for path in HERE.glob("*.svg")} == {*STORIES, *elsewhere}


@pytest.mark.slow
def test_joins_make_views_and_messages_that_cross_have_one_order() -> None:
    assert seen("joins") == {
        "anna": ["a with a", "ab with a", "abc with ab", "1", "2", "ac with ac"],
        "bert": ["ab with b", "abc with ab", "1", "2"],
        "carl": ["abc with c", "1", "2", "ac with ac"],
    }


@pytest.mark.slow
def test_only_safe_waits_for_a_round() -> None:
    told = story("services")
    sent = {event.message: event for event in told.history if isinstance(event, ClientSent)}
    waits_ms = {
        (event.service.name, NAMES[event.process.session]): (event.at_us - sent[event.message].at_us) / 1000
        for event in told.history
        if isinstance(event, ClientDelivered)
    }

    assert all(ms < 25 for (service, _), ms in waits_ms.items() if service != "SAFE")
    assert all(55 < ms < 65 for (service, _), ms in waits_ms.items() if service == "SAFE")


@pytest.mark.slow
def test_in_the_split_one_side_has_the_safe_message_before_the_signal_and_the_other_after_it() -> None:
    eu, us = ["1", SIGNAL, "2", "ab with ab"], [SIGNAL, "1", "3", "cd with cd"]

    assert seen("split") == {"anna": eu, "bert": eu, "carl": us, "dora": us}


@pytest.mark.slow
def test_after_a_merge_each_side_is_together_and_there_is_no_signal() -> None:
    eu, us = ["1", "abcd with ab", "3", "4"], ["2", "abcd with cd", "3", "4"]

    assert seen("merge") == {"anna": eu, "bert": eu, "carl": us, "dora": us}


@pytest.mark.slow
def test_what_was_safe_before_a_crash_reaches_who_is_left() -> None:
    all_left = ["1", "2", SIGNAL, "abd with abd"]

    assert seen("crash") == {"anna": all_left, "bert": all_left, "carl": ["1"], "dora": all_left}


@pytest.mark.slow
def test_the_daemons_have_more_views_than_the_group_then() -> None:
    told = story("daemons")
    views = [
        {one.daemon for one in event.members}
        for event in told.history
        if isinstance(event, Installed)
        and event.at_us > (told.wish.from_us or 0)
        and event.process.daemon == "us2"
    ]

    assert views == [{"eu1", "eu2", "us2"}, {"eu1", "eu2", "us1", "us2"}]


# The programs of the page.


@cache
def programs() -> dict[str, Any]:
    """What the page defines, as one program."""
    code = "\n\n".join(re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
    names: dict[str, Any] = {"__name__": "docs.views"}
    exec(compile(code, "docs/views.md", "exec"), names)
    return names


ANNA, BERT, CARL = [Member(at, name, 1, 1) for at, name in (("eu1", "anna"), ("eu2", "bert"), ("us1", "carl"))]
ID = GroupViewId(ViewId(1, 0, 1), (), 1)  # type: ignore[arg-type]


def message(data: bytes) -> Message:
    place: Place = None  # type: ignore[assignment]
    return Message(BERT.private_group, ("trades",), data, SAFE, 0, place)


def view(members: tuple[Member, ...], together: tuple[Member, ...]) -> View:
    return View("trades", ID, members, together, "network", None, ())


def test_payments_pays_what_is_certain_and_asks_about_the_rest() -> None:
    paid: list[bytes] = []
    asked: list[list[bytes]] = []
    payments = programs()["Payments"](paid.append, asked.append)
    on: Callable[[object], None] = payments.on

    on(view((ANNA, BERT, CARL), (ANNA, BERT, CARL)))
    on(message(b"one"))
    on(Transition("trades", ID, (ANNA, BERT)))
    on(message(b"two"))
    on(view((ANNA, BERT), (ANNA, BERT)))
    assert (paid, asked) == ([b"one"], [])
    on(message(b"three"))
    on(view((ANNA, BERT, CARL), (ANNA, BERT)))

    assert (paid, asked) == ([b"one", b"three"], [[b"two"]])


def test_one_of_each_side_tells_its_state_after_a_merge() -> None:
    told = {}
    for me, together in ((ANNA, (ANNA, BERT)), (BERT, (ANNA, BERT)), (CARL, (CARL,))):
        replica = programs()["Replica"](me.private_group)
        replica.on(message(me.name.encode()))
        told[me.name] = replica.on(view((ANNA, BERT, CARL), together))

    assert told == {"anna": b"state: anna", "bert": None, "carl": b"state: carl"}
