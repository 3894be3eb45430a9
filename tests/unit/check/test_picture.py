"""Pictures of handwritten histories: their elements, and the note about what is left out."""

import re
from xml.etree import ElementTree

import pytest
from tests.unit.check.evs_c_notation import client_history
from tests.unit.check.evs_model import run
from tests.unit.check.evs_notation import history

from hopring.check.picture import PictureError, PictureOptions, draw
from hopring.check.picture.drawing import LANE_PX, letter
from hopring.check.picture.scene import make_scene
from hopring.check.picture.svg import PAPER, SERVICES, VIEWS, sheet
from hopring.check.trace import ClientConnected, Event, ProcessName, ViewInstalled, ViewName

SPLIT = """
    a: view 1 abc | send 1 safe | deliver a:1 | signal | view 2 ab
    b: view 1 abc | deliver a:1 | signal | view 2 ab
    c: view 1 abc | send 1 | send 2 | send 3 | signal | view 3c c
"""
GROUP = """
    a: view red 1.1 a | view red 1.2 ab | send 1 to red | got a:1 | signal red a | view red 2.1 a
    b: view red 1.2 ab | got a:1 | crash
"""


class Page:
    """A picture that was parsed back from its SVG."""

    def __init__(self, picture: str) -> None:
        self.root = ElementTree.fromstring(picture)

    def all(self, tag: str, words: str = "") -> list[ElementTree.Element]:
        """The elements with this tag and all of these classes."""
        found = self.root.iter(f"{{http://www.w3.org/2000/svg}}{tag}")
        return [one for one in found if set(words.split()) <= set(one.get("class", "").split())]

    def texts(self) -> list[str]:
        return [one.text or "" for one in self.all("text")]


def page(events: list[Event], wish: PictureOptions | None = None) -> Page:
    return Page(draw(events, wish))


def flights(shown: Page, service: str) -> list[ElementTree.Element]:
    """Arrows between lanes; the arrow of the legend is horizontal."""
    return [one for one in shown.all("line", f"arrow {service}") if one.attrib["y1"] != one.attrib["y2"]]


def xs(elements: list[ElementTree.Element], name: str) -> list[float]:
    return [float(one.attrib[name]) for one in elements]


def test_every_daemon_has_a_lane_and_every_view_a_colour() -> None:
    shown = page(history(SPLIT))

    assert [one.text for one in shown.all("text", "end")] == ["a", "b", "c"]
    assert {"A: a b c", "B: a b", "C: c"} <= set(shown.texts())
    # A band for each of three members and its sign in the legend; closing ones are separate.
    counts = [
        len([one for one in shown.all("rect", f"v{at}") if "closing" not in one.attrib["class"]])
        for at in (1, 2)
    ]
    assert counts == [3, 2]


def test_neighbours_in_one_view_share_a_band_and_a_split_separates_them() -> None:
    shown = page(history(SPLIT))

    assert [len(shown.all("path", f"braid v{at}")) for at in (0, 1, 2)] == [2, 1, 0]


def test_an_arrow_goes_from_the_send_to_each_delivery() -> None:
    shown = page(history(SPLIT))

    (arrow,) = flights(shown, "safe")
    (send,) = [one for one in shown.all("circle", "send safe") if one.findall("*")]
    assert (arrow.attrib["x1"], arrow.attrib["y1"]) == (send.attrib["cx"], send.attrib["cy"])
    assert float(arrow.attrib["y2"]) < float(arrow.attrib["y1"]) + LANE_PX
    assert float(arrow.attrib["x2"]) > float(arrow.attrib["x1"])
    assert len(shown.all("path", "arrow safe")) == 1  # To the sender itself.


def test_signals_are_dashed_and_what_follows_is_closing() -> None:
    shown = page(history(SPLIT))

    in_lanes, in_legend = 3, 1
    assert len(shown.all("line", "signal")) == len(shown.all("rect", "closing")) == in_lanes + in_legend


def test_simultaneous_events_of_one_lane_are_spread_out_in_order() -> None:
    process, view = ProcessName("a", 1), ViewName(1, 0, 1)
    events = [ViewInstalled(process, 7, view._replace(counter=at), (process,), (process,)) for at in (1, 2, 3)]
    scene = make_scene(events, PictureOptions())

    first, second, third = [one.x for one in scene.shown]
    assert second - first == third - second >= 8.0


def test_a_group_has_its_sessions_as_lanes_with_their_names() -> None:
    events = client_history(GROUP)
    names = {event.process: event.name for event in events if isinstance(event, ClientConnected)}
    shown = page(events, PictureOptions(group="red"))

    lanes = [one.text for one in shown.all("text", "end")]
    assert lanes == [f"{name} at {process.daemon}" for process, name in names.items()]
    assert len(shown.all("circle", "dot agreed")) == 2 + 1
    assert len(shown.all("path", "crash")) == 1 + 1


def test_a_process_without_a_crash_event_ends_with_its_last_event() -> None:
    shown = page(history("a: view 1 a | send 1\na.2: view 2 a"))

    assert "last heard of" in shown.texts()
    assert len(shown.all("path", "crash")) == 1 + 1
    assert len(shown.all("text", "end")) == 1


def test_the_sessions_of_a_daemon_that_starts_again_are_gone() -> None:
    shown = page(
        client_history(GROUP.replace(" | crash", "")) + history("b.2: view 5 b"), PictureOptions(group="red")
    )

    assert "last heard of" in shown.texts()


def test_the_same_history_gives_the_same_bytes() -> None:
    events = run(3).events

    assert draw(events) == draw(list(events))


@pytest.mark.parametrize("seed", range(8))
def test_histories_of_the_model_can_be_drawn_and_stay_on_the_page(seed: int) -> None:
    events = run(seed).events
    shown = page(events)
    height = float(shown.root.attrib["height"])

    places = xs(shown.all("circle"), "cx") + xs(shown.all("text"), "x") + xs(shown.all("line"), "x2")
    assert all(0 <= x <= 960 for x in places)
    assert all(0 <= y <= height for y in xs(shown.all("text"), "y"))
    assert all(float(one.attrib["width"]) >= 0 for one in shown.all("rect"))


def test_a_window_shows_the_view_that_was_there_before_and_says_what_is_outside() -> None:
    shown = page(history(SPLIT), PictureOptions(from_us=3, to_us=9))

    assert "A: a b c" in shown.texts()
    assert any(
        re.fullmatch(r"Not shown: \d+ events of \d+ before or after this time\.", one) for one in shown.texts()
    )


def test_a_process_that_ended_before_the_window_has_no_lane_and_a_quiet_one_has() -> None:
    events = history("a: view 1 ab | crash\nb: view 1 ab\nc: view 2 c | send 1 | send 2 | send 3")
    shown = page(events, PictureOptions(from_us=3, to_us=4))

    assert [one.text for one in shown.all("text", "end")] == ["b", "c"]
    assert "A: a b" in shown.texts()


def test_messages_have_numbers_only_if_there_is_room_for_them() -> None:
    sends = " | ".join([f"send {number}" for number in range(1, 36)])
    wide, narrow = [
        page(history(f"a: view 1 a | {sends}"), PictureOptions(width_px=width)) for width in (2_000, 400)
    ]

    assert len(wide.all("text", "number")) == 35
    assert not narrow.all("text", "number")
    assert len(narrow.all("circle", "send agreed")) == 35 + 1


def test_a_delivery_whose_send_is_not_in_the_window_has_no_arrow_and_a_note_says_so() -> None:
    events = history("a: view 1 ab | send 1\nb: view 1 ab | signal | signal | signal | deliver a:1")
    shown = page(events, PictureOptions(from_us=4, to_us=9))

    assert "Not shown: 1 delivery without an arrow: the send is not in the picture." in shown.texts()


def test_above_a_limit_messages_are_counted_and_not_drawn() -> None:
    sends = " | ".join([f"send {number}" for number in range(1, 101)])
    gets = " | ".join([f"deliver a:{number}" for number in range(1, 101)])
    shown = page(history(f"a: view 1 ab | {sends}\nb: view 1 ab | {gets}"), PictureOptions(arrows_max=10))

    assert "Not shown: 90 of 100 messages are left out, with their arrows and dots." in shown.texts()
    assert len(flights(shown, "agreed")) == 10


def test_above_a_limit_lanes_are_counted_and_not_drawn() -> None:
    lines = "\n".join([f"{name}: view 1 abcdef" for name in "abcdef"])
    shown = page(history(lines), PictureOptions(lanes_max=4))

    assert len(shown.all("text", "end")) == 4
    assert "Not shown: 2 of 6 lanes are left out." in shown.texts()


def test_the_legend_has_only_what_is_in_the_picture() -> None:
    texts = page(history("a: view 1 a | send 1 causal | deliver a:1")).texts()

    assert {"Causal", "sent", "delivered", "starts"} <= set(texts)
    assert not {"Safe", "Agreed", "transitional signal", "the view is closing", "ends"} & set(texts)


def test_title_and_description_are_text() -> None:
    root = page(history(SPLIT), PictureOptions(title="A <split> & more")).root
    title, description = [
        next(root.iter(f"{{http://www.w3.org/2000/svg}}{tag}")).text for tag in ("title", "desc")
    ]

    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == "hop-title hop-desc"
    assert title == "A <split> & more"
    assert description is not None
    assert "view A: a b c; view B: a b; view C: c" in description


def test_names_from_a_file_cannot_break_the_picture() -> None:
    process = ProcessName('<b>"&\x07\n', 1)
    view = ViewName(1, 0, 1)
    shown = page([ViewInstalled(process, 0, view, (process,), (process,))])

    assert 'A: <b>"&\ufffd\ufffd' in shown.texts()


@pytest.mark.parametrize(
    ("events", "wish", "told"),
    [
        ([], PictureOptions(), "empty"),
        (history("a: recover"), PictureOptions(), "no views and no messages"),
        (client_history("a: view red 1.1 a"), PictureOptions(), "choose a group: red"),
        (client_history("a: view red 1.1 a"), PictureOptions(group="blue"), "there are red"),
        (history(SPLIT), PictureOptions(group="red"), "nobody in this trace joins any group"),
        (history(SPLIT), PictureOptions(from_us=50), "nothing happens in this window"),
        (history(SPLIT), PictureOptions(from_us=3, to_us=3), "has no length"),
    ],
)
def test_without_anything_to_draw_the_error_says_why(
    events: list[Event], wish: PictureOptions, told: str
) -> None:
    with pytest.raises(PictureError, match=re.escape(told)):
        draw(events, wish)


def test_views_are_lettered_like_columns() -> None:
    assert [letter(number) for number in (0, 25, 26, 51, 52, 702)] == ["A", "Z", "AA", "AZ", "BA", "AAA"]


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_dots_can_be_told_from_every_band(mode: int) -> None:
    def contrast(one: str, other: str) -> float:
        low, high = sorted([luminance(one), luminance(other)])
        return (high + 0.05) / (low + 0.05)

    grounds = [pair[mode] for pair in VIEWS] + [PAPER[mode]]
    # WCAG requires 3 for graphical signs.
    assert [(s, g) for s in SERVICES.values() for g in grounds if contrast(s[mode], g) < 3] == []
    assert "prefers-color-scheme: dark" in sheet()
