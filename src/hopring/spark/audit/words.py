"""How a witness names things: a daemon is `a`, in its second start `a.2`; a message `a:12`; views by number."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from hopring.check.trace_names import read_message_id, read_process, read_view
from hopring.spark.audit.masks import WORD_BITS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CIRCLE_SHOWN_MAX: Final = 8
_DID: Final = {
    "deliver": "delivered {message}",
    "send": "sent {message}",
    "view": "installed {view}",
    "transitional": "got a signal",
    "recover": "recovered",
    "crash": "crashed",
}

Facts = dict[str, Any]


class Words:
    """The words of the histories in which something is broken; asks for no more than the witnesses need."""

    def __init__(self, spark: "SparkSession", facts: list[Facts], more_runs: Iterable[str]) -> None:
        runs = sorted({one["run"] for one in facts} | set(more_runs))
        self._starts: dict[tuple[str, str], int] = {}
        self._counters: dict[tuple[str, int], set[str]] = {}
        self._events: dict[tuple[str, str, int], Facts] = {}
        self._people: dict[tuple[str, int], str] = {}
        if not runs:
            return
        args = {"runs": runs}
        for row in spark.sql(
            "SELECT run, process, start FROM audit_lives WHERE array_contains(:runs, run)", args
        ).collect():
            self._starts[row["run"], row["process"]] = row["start"]
        for row in spark.sql(
            "SELECT DISTINCT run, view FROM audit_rooms WHERE view IS NOT NULL AND array_contains(:runs, run)",
            args,
        ).collect():
            counter = read_view(row["view"]).counter
            self._counters.setdefault((row["run"], counter), set()).add(row["view"])
        for row in spark.sql(
            "SELECT run, process, number FROM audit_people WHERE array_contains(:runs, run)", args
        ).collect():
            self._people[row["run"], row["number"]] = row["process"]
        self._look_up(spark, facts)

    def _look_up(self, spark: "SparkSession", facts: list[Facts]) -> None:
        """The events that the witnesses point at."""
        places = sorted({(one["run"], one["process"], one["position"]) for one in facts if "position" in one})
        if not places:
            return
        wanted = spark.createDataFrame(places, "run string, process string, position bigint")
        rows = spark.table("audit_trace").join(wanted.hint("broadcast"), ["run", "process", "position"])
        for row in rows.select("run", "process", "position", "kind", "time_us", "view", "message").collect():
            self._events[row["run"], row["process"], row["position"]] = row.asDict()

    def witness(self, template: str, facts: Facts) -> str:
        """The sentence of a property with the names of this history in it."""
        run = facts["run"]
        said = {name: self._said(run, name, value) for name, value in facts.items()}
        if "position" in facts:
            said["event"] = self._event(run, facts["process"], facts["position"])
        return template.format_map(_Said(said)).rstrip()

    def _said(self, run: str, name: str, value: Any) -> str:
        if name == "lacking":
            return self._set(run, value)
        if name in ("process", "other"):
            return self.process(run, value)
        if name.endswith("message"):
            return self.message(run, value)
        return self.view(run, value) if name.endswith("view") else str(value)

    def _set(self, run: str, words: list[int]) -> str:
        """The processes of a mask."""
        numbers = [
            word * WORD_BITS + bit
            for word, bits in enumerate(words)
            for bit in range(WORD_BITS)
            if bits >> bit & 1
        ]
        return " and ".join(sorted(self.process(run, self._people[run, number]) for number in numbers))

    def _event(self, run: str, process: str, position: int) -> str:
        event = self._events.get((run, process, position))
        who = self.process(run, process)
        if event is None:
            return f"event {position} of {who}"
        said = {"message": event["message"], "view": event["view"]}
        names = _Said({name: self._said(run, name, value) for name, value in said.items() if value})
        did = _DID.get(event["kind"], "counted").format_map(names)
        return f"{who} {did} at {event['time_us']} us (its event {position})"

    def process(self, run: str, name: str) -> str:
        """Who."""
        process = read_process(name)
        start = self._starts.get((run, name))
        if start is None:
            return f"{process.daemon}.{process.incarnation:x}?"
        return process.daemon if start == 1 else f"{process.daemon}.{start}"

    def message(self, run: str, name: str) -> str:
        """What."""
        number = read_message_id(name).number
        return f"{self.process(run, name.rpartition(':')[0])}:{number}"

    def view(self, run: str, name: str) -> str:
        """Where; the whole id where two views have the same counter."""
        view = read_view(name)
        if len(self._counters.get((run, view.counter), ())) > 1:
            return f"view {view.counter} of {view.representative} ({view.nonce:x})"
        return f"view {view.counter}"


class _Said(dict[str, str]):
    """What a column that is null says: nothing."""

    def __missing__(self, _name: str) -> str:
        return ""


def circle_words(names: list[str]) -> str:
    """A circle of messages from the first round to itself; of a long way the beginning and the end."""
    shown = [*names, names[0]]
    if len(shown) > CIRCLE_SHOWN_MAX:
        shown[CIRCLE_SHOWN_MAX - 2 : -2] = [f"{len(shown) - CIRCLE_SHOWN_MAX} more"]
    return f"each before the next, at one process or another: {', '.join(shown)}"
