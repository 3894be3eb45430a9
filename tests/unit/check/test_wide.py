"""The checks of the long-haul service on histories written by hand: one that is right, and errors in it.

A line is one event: `1 sends 1.1 to 123`, `1 tries 1.2 to 123` (refused), `2 has 1.1`,
`2 delivers 1.1`, `1 knows 1.1`, `2 drops 1.1`, `3 waits 1.1`, `3 rests 0 0`, `3 refuses`,
`1 off 2`, `1 frames 2`, `1 reaches 7 9`, `1 accepts 4 entry`, `1 finishes 4`. Of files:
`1 attaches 1.1 seg abc`
(its place, or `-`, and its content), `2 reads 1.1 s/seg abc`, `1 deletes 1.1`. Digits are clusters, all in one
talk unless a name follows, `a` behind an id makes it an abcast. A cluster has one client; `2b` is another
one at cluster 2, and `at=4` a delivery number.
"""

import pytest

from hopring.check.durable_log import EntryAccepted
from hopring.check.wide.files import FILES
from hopring.check.wide.history import (
    WideAccepted,
    WideDropped,
    WideEvent,
    WideFileSeen,
    WideFileSent,
    WideFinished,
    WideFrameSent,
    WideLimitSeen,
    WideLogEvent,
    WideLogged,
    WideNotDone,
    WideRefused,
    WideRest,
    WideSeen,
    WideSent,
    WideSourceGone,
    WideSwitched,
    WideWaiting,
)
from hopring.check.wide.judge import check_wide
from hopring.check.wide.properties import (
    ACCEPTED,
    CAUSES,
    EMPTY,
    HONEST,
    INVENTED,
    LIMITS,
    MIXED_CAUSES,
    NONE_LOST,
    NONE_REFUSED,
    NOT_IN_VAIN,
    ONCE,
    ONE_LINE,
    ONE_LOG,
    ONE_ORDER,
    REQUESTS,
    SILENT,
)
from hopring.haul.ids import ClusterId, ParcelId, Talk, clusters_mask
from hopring.haul.order.events import CastKind, Parcel

ALL = "123"


def history(text: str) -> list[WideEvent]:
    """The events of a history, one in each line; a cluster has one client, which is told at once."""
    notes = Notes()
    return [event for line in text.strip().splitlines() for event in notes.read(line.split())]


class Notes:
    """Reads the lines of a history."""

    def __init__(self) -> None:
        self.sent: dict[str, tuple[Talk, CastKind]] = {}
        self.items: dict[str, int] = {}  # By client: the last delivery number.

    def read(self, words: list[str]) -> list[WideEvent]:
        """The events of a line."""
        client, verb, rest = words[0], words[1], words[2:]
        cluster = ClusterId(int(client[0]))
        match verb:
            case "refuses":
                return [WideRefused(cluster, "something")]
            case "rests":
                return [WideRest(cluster, (("descriptors", int(rest[0])), ("parcels", int(rest[1]))))]
            case "off" | "on":
                return [WideSwitched(cluster, ClusterId(int(rest[0])), on=verb == "on")]
            case "frames":
                return [WideFrameSent(cluster, ClusterId(int(rest[0])), "m1", rest[1:] != ["late"], "Beat")]
            case "reaches":
                return [WideLimitSeen(cluster, "bytes", int(rest[0]), int(rest[1]))]
            case "finishes":
                return [WideFinished(client, cluster, "s", int(rest[0]))]
            case "attaches":
                return [WideFileSent(rest[0], "s", rest[1].strip("-"), rest[2])]
            case "reads":
                return [WideFileSeen(client, cluster, "s", rest[0], rest[1], rest[2])]
            case "deletes":
                return [WideSourceGone(cluster, rest[0])]
            case "accepts":
                entry = EntryAccepted(0, "m1", int(rest[0]), rest[1])
                return [WideLogEvent(cluster, ("m1", "m2", "m3"), entry)]
        return self._parcel(client, cluster, verb, rest)

    def _parcel(self, client: str, cluster: ClusterId, verb: str, rest: list[str]) -> list[WideEvent]:
        name = rest[0].removesuffix("a")
        parcel = ParcelId(ClusterId(int(name[0])), int(name[2:]))
        match verb:
            case "sends" | "tries":
                return self._sends(client, cluster, rest, told=verb == "sends")
            case "has":
                return [WideLogged(cluster, "s", parcel)]
            case "delivers":
                every = clusters_mask([ClusterId(int(one)) for one in ALL])
                talk, kind = self.sent.get(name, (Talk(every), CastKind.CBCAST))
                entry = 7 if rest[1:] == ["altered"] else 0
                got = Parcel(parcel, talk, kind, talk.participants, entry, ())
                return [self._item(client, cluster, rest[1:], message=name, parcel=got)]
            case "knows":
                return [self._item(client, cluster, rest[1:], everywhere=parcel)]
            case "drops":
                return [WideDropped(cluster, "s", parcel)]
        return [WideWaiting(cluster, "s", (parcel,))]

    def _sends(self, client: str, cluster: ClusterId, rest: list[str], *, told: bool) -> list[WideEvent]:
        name = rest[0].removesuffix("a")
        participants = clusters_mask([ClusterId(int(one)) for one in rest[2]])
        talk = Talk(participants, rest[3] if len(rest) > 3 else "")
        kind = CastKind.ABCAST if rest[0].endswith("a") else CastKind.CBCAST
        self.sent[name] = talk, kind
        sent = WideSent(client, cluster, name, "s", talk, kind, participants, 0, int(name[2:]))
        if not told:
            return [sent, WideNotDone(client, name)]
        parcel = ParcelId(ClusterId(int(name[0])), int(name[2:]))
        return [sent, WideAccepted(client, name, parcel, ("m1", "m2"), 3)]

    def _item(
        self,
        client: str,
        cluster: ClusterId,
        rest: list[str],
        message: str = "",
        parcel: Parcel | None = None,
        everywhere: ParcelId | None = None,
    ) -> WideSeen:
        at = [int(one.removeprefix("at=")) for one in rest if one.startswith("at=")]
        self.items[client] = at[0] if at else self.items.get(client, 0) + 1
        return WideSeen(client, cluster, "s", self.items[client], message, parcel, everywhere)


def wrong(text: str) -> set[str]:
    """The properties that a history breaks."""
    return {verdict.property for verdict in check_wide(history(text)) if not verdict.holds}


RIGHT = """
1 sends 1.1 to 123
1 has 1.1
1 delivers 1.1
2 has 1.1
2 delivers 1.1
2 sends 2.1 to 123
2 has 2.1
2 delivers 2.1
3 has 2.1
3 waits 2.1
3 has 1.1
3 delivers 1.1
3 delivers 2.1
1 has 2.1
1 delivers 2.1
3 sends 3.1a to 123
3 has 3.1
1 sends 1.2a to 123
1 has 1.2
1 has 3.1
1 delivers 3.1
1 delivers 1.2
2 has 3.1
2 has 1.2
2 delivers 3.1
2 delivers 1.2
3 delivers 3.1
3 has 1.2
3 delivers 1.2
1 knows 1.1
1 knows 1.2
2 knows 2.1
3 knows 3.1
1 drops 1.1
1 rests 0 0
2 rests 0 0
3 rests 0 0
"""


def test_a_right_history_is_right() -> None:
    assert wrong(RIGHT) == set()


def without_line(line: str) -> str:
    """The right history without one of its lines."""
    assert f"\n{line}\n" in RIGHT
    return RIGHT.replace(f"\n{line}\n", "\n")


def swapped(first: str, second: str) -> str:
    """The right history with two lines that follow each other the other way round."""
    assert f"{first}\n{second}\n" in RIGHT
    return RIGHT.replace(f"{first}\n{second}\n", f"{second}\n{first}\n")


ERRORS = {
    "a parcel that nobody sent": (f"{RIGHT}1 delivers 3.9\n", {INVENTED}),
    "another content": (RIGHT.replace("2 delivers 2.1\n", "2 delivers 2.1 altered\n"), {INVENTED}),
    "a parcel at a cluster that it was not sent to": (
        f"{RIGHT}1 sends 1.3 to 12\n1 has 1.3\n2 has 1.3\n1 delivers 1.3\n2 delivers 1.3\n3 delivers 1.3\n"
        "1 knows 1.3\n",
        {INVENTED},
    ),
    "a parcel twice": (f"{RIGHT}3 delivers 2.1\n", {ONCE}),
    "an effect before its cause": (swapped("3 delivers 1.1", "3 delivers 2.1"), {CAUSES}),
    "an abcast before a cbcast that caused it": (
        RIGHT.replace("1 delivers 2.1\n", "").replace("1 delivers 3.1\n", "1 delivers 3.1\n1 delivers 2.1\n"),
        {MIXED_CAUSES},
    ),
    "two orders": (swapped("2 delivers 3.1", "2 delivers 1.2"), {ONE_ORDER}),
    "a parcel that is lost": (without_line("2 delivers 1.2"), {NONE_LOST}),
    "a sender who is told too early": (
        without_line("1 knows 1.1").replace("1 has 1.1\n", "1 has 1.1\n1 knows 1.1\n", 1),
        {HONEST},
    ),
    "a sender who is never told": (without_line("2 knows 2.1"), {HONEST}),
    "a body that goes while another cluster lacks it": (
        RIGHT.replace("2 sends 2.1 to 123\n", "1 drops 1.1\n2 sends 2.1 to 123\n"),
        {EMPTY},
    ),
    "a body that goes before it is delivered here": (
        RIGHT.replace("3 has 1.1\n", "3 has 1.1\n3 drops 1.1\n"),
        {EMPTY},
    ),
    "a descriptor that is left": (RIGHT.replace("2 rests 0 0", "2 rests 1 0"), {EMPTY}),
    "a parcel that is left": (RIGHT.replace("2 rests 0 0", "2 rests 0 1"), {EMPTY}),
    "a wait without a cause": (f"{RIGHT}3 waits 2.1\n", {NOT_IN_VAIN}),
    "a durable consumer without one item": (f"{RIGHT}3 finishes 1\n3 finishes 3\n", {NONE_LOST}),
    "a refusal": (f"{RIGHT}3 refuses\n", {NONE_REFUSED}),
    "a session that gets an item twice": (
        f"{RIGHT}2b delivers 1.1 at=1\n2b delivers 1.1 at=1\n",
        {ONCE},
    ),
    "two sessions with different items at a number": (f"{RIGHT}2b delivers 2.1 at=1\n", {ONE_LINE}),
    "an item that nobody gets": (f"{RIGHT}2b knows 2.1 at=9\n", {ONE_LINE}),
    "a frame on a link that is off": (f"{RIGHT}1 off 2\n1 frames 3\n1 frames 2\n", {SILENT}),
    "a frame outside of the windows": (f"{RIGHT}1 frames 3 late\n", {SILENT}),
    "a limit that is passed": (f"{RIGHT}1 reaches 10 9\n", {LIMITS}),
    "two entries at one index": (f"{RIGHT}1 accepts 4 one\n1 accepts 4 other\n", {ONE_LOG}),
    "a request that waits for an earlier one": (
        f"{RIGHT}1 sends 1.4 to 1\n1 has 1.4\n1 delivers 1.4\n1 knows 1.4\n"
        "1 sends 1.3 to 1 other\n1 has 1.3\n1 delivers 1.3\n1 knows 1.3\n",
        {REQUESTS},
    ),
}


@pytest.mark.parametrize(("text", "properties"), ERRORS.values(), ids=ERRORS.keys())
def test_an_error_breaks_its_property_and_no_other(text: str, properties: set[str]) -> None:
    assert wrong(text) == properties


def test_an_effect_in_another_talk_need_not_wait() -> None:
    text = """
1 sends 1.1 to 123
1 has 1.1
1 delivers 1.1
2 has 1.1
2 delivers 1.1
2 sends 2.1 to 23 prices
2 has 2.1
2 delivers 2.1
3 has 2.1
3 delivers 2.1
3 has 1.1
3 delivers 1.1
1 knows 1.1
2 knows 2.1
"""

    assert wrong(text) == set()


def test_a_request_on_the_disks_of_a_minority_is_not_accepted() -> None:
    events = history(RIGHT)
    at = next(at for at, one in enumerate(events) if isinstance(one, WideAccepted))
    told = events[at]
    assert isinstance(told, WideAccepted)
    events[at] = WideAccepted(told.client, told.message, told.parcel, ("m1",), 3)

    assert {verdict.property for verdict in check_wide(events) if not verdict.holds} == {ACCEPTED}


def test_what_is_right_besides() -> None:
    more = "1 tries 1.3 to 123\n1 off 2\n1 on 2\n1 frames 2\n1 reaches 9 9\n"
    more += "2b delivers 1.1 at=1\n2b delivers 2.1 at=2\n"
    more += "".join([f"2 finishes {number}\n" for number in (2, 3, 3, 4, 5)])

    assert wrong(RIGHT + more) == set()


WITH_FILES = """
1 attaches 1.1 seg abc
1 sends 1.1 to 12
1 has 1.1
2 has 1.1
1 delivers 1.1
1 reads 1.1 s/seg abc
2 delivers 1.1
2 reads 1.1 s/seg abc
1 attaches 1.2 - xyz
1 sends 1.2 to 12
1 has 1.2
2 has 1.2
1 delivers 1.2
1 reads 1.2 s/incoming/1.2 xyz
2 delivers 1.2
2 reads 1.2 s/incoming/1.2 xyz
1 knows 1.1
1 knows 1.2
1 deletes 1.1
1 deletes 1.2
"""


def test_files_that_arrive_are_right() -> None:
    assert wrong(WITH_FILES) == set()


def test_a_later_file_may_have_taken_a_place_that_senders_name() -> None:
    later = "1 attaches 1.3 seg def\n1 sends 1.3 to 2\n2 has 1.3\n2 delivers 1.3\n2 reads 1.3 s/seg def\n"
    text = WITH_FILES.replace("2 reads 1.1 s/seg abc", "2 reads 1.1 s/seg def")

    assert wrong(f"{text}{later}1 knows 1.3\n1 deletes 1.3\n") == set()


WRONG_FILES = {
    "another content": ("2 reads 1.2 s/incoming/1.2 xyz", "2 reads 1.2 s/incoming/1.2 xy"),
    "nothing there": ("2 reads 1.1 s/seg abc", "2 reads 1.1 s/seg -"),
    "outside of the directory": ("2 reads 1.2 s/incoming/1.2 xyz", "2 reads 1.2 s/../incoming/1.2 xyz"),
    "another place": ("2 reads 1.1 s/seg abc", "2 reads 1.1 s/other abc"),
    "a message without its file": ("2 reads 1.1 s/seg abc\n", ""),
    "a file that was not sent": ("1 attaches 1.2 - xyz\n", ""),
    "a source that goes too early": ("2 has 1.1\n", "1 deletes 1.1\n2 has 1.1\n"),
    "a source that never goes": ("1 deletes 1.2\n", ""),
}


@pytest.mark.parametrize(("right", "other"), WRONG_FILES.values(), ids=WRONG_FILES.keys())
def test_an_error_of_a_file_is_found(right: str, other: str) -> None:
    assert right in WITH_FILES

    assert wrong(WITH_FILES.replace(right, other, 1)) == {FILES}
