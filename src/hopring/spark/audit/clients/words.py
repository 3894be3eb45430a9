"""How a witness names things of clients: a session is `a/7`, a message `a/7:12`, a group's view `red 5.2`."""

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from hopring.check.evs_c.numbers import short_view
from hopring.check.trace_names import read_group_view, read_message_id, read_process
from hopring.spark.audit.masks import WORD_BITS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DID: Final = {
    "deliver": "delivered {message}",
    "send": "sent {message}",
    "view": "was shown {view}",
    "transitional": "got a signal of {group_name}",
    "join": "asked to join {group_name}",
    "leave": "asked to leave {group_name}",
    "left": "left {group_name}",
    "connect": "connected",
    "disconnect": "disconnected",
    "gone": "was gone",
}

Facts = dict[str, Any]


class ClientWords:
    """The words of the histories in which something is broken; asks for no more than the witnesses need."""

    def __init__(self, spark: "SparkSession", facts: list[Facts], more_runs: Iterable[str]) -> None:
        runs = sorted({one["run"] for one in facts} | set(more_runs))
        self._starts: dict[tuple[str, str], list[str]] = {}
        self._people: dict[tuple[int, int], str] = {}
        self._events: dict[tuple[str, str, int], Facts] = {}
        self._short: Counter[tuple[str, str, str]] = Counter()
        if not runs:
            return
        args = {"runs": runs}
        for row in spark.sql(
            "SELECT run, daemon, process FROM audit_borders"
            " WHERE kind = 'recover' AND array_contains(:runs, run) ORDER BY file, row",
            args,
        ).collect():
            self._starts.setdefault((row["run"], row["daemon"]), []).append(row["process"])
        for row in spark.sql(
            "SELECT DISTINCT run, group_name, view FROM audit_rooms WHERE array_contains(:runs, run)", args
        ).collect():
            self._short[row["run"], row["group_name"], short_view(read_group_view(row["view"]))] += 1
        self._look_up(spark, facts)

    def _look_up(self, spark: "SparkSession", facts: list[Facts]) -> None:
        """The sessions and the events that the witnesses point at."""
        groups = sorted({one["group_id"] for one in facts if "group_id" in one})
        for row in spark.sql(
            "SELECT group_id, number, process FROM audit_people WHERE array_contains(:groups, group_id)",
            {"groups": groups or [0]},
        ).collect():
            self._people[row["group_id"], row["number"]] = row["process"]
        places = sorted({(one["run"], one["process"], one["position"]) for one in facts if "position" in one})
        if not places:
            return
        wanted = spark.createDataFrame(places, "run string, process string, position bigint")
        rows = spark.table("audit_trace").join(wanted.hint("broadcast"), ["run", "process", "position"])
        columns = "run", "process", "position", "kind", "time_us", "group_name", "view", "message"
        for row in rows.select(*columns).collect():
            self._events[row["run"], row["process"], row["position"]] = row.asDict()

    def witness(self, template: str, facts: Facts) -> str:
        """The sentence of a property with the names of this history in it."""
        said = {name: self._said(facts, name) for name in facts}
        if "position" in facts:
            said["event"] = self._event(facts)
        return template.format_map(_Said(said)).strip()

    def _said(self, facts: Facts, name: str) -> str:
        run, value = facts["run"], facts[name]
        if value is None:
            return ""
        if name == "lacking":
            return self._set(run, facts["group_id"], value)
        if name in ("process", "other"):
            return self.process(run, value)
        if name.endswith("message"):
            return self.message(run, value)
        return self.view(run, facts["group_name"], value) if name.endswith("view") else str(value)

    def _set(self, run: str, group: int, words: list[int]) -> str:
        """The sessions of a mask."""
        numbers = [
            word * WORD_BITS + bit
            for word, bits in enumerate(words)
            for bit in range(WORD_BITS)
            if bits >> bit & 1
        ]
        return " and ".join(sorted(self.process(run, self._people[group, number]) for number in numbers))

    def _event(self, facts: Facts) -> str:
        run, process, position = facts["run"], facts["process"], facts["position"]
        who = self.process(run, process)
        event = self._events.get((run, process, position))
        if event is None:
            return f"event {position} of {who}"
        names = _Said({name: self._said(event, name) for name in ("message", "view", "group_name")})
        return f"{who} {_DID[event['kind']].format_map(names)} at {event['time_us']} us (its event {position})"

    def process(self, run: str, name: str) -> str:
        """Who."""
        process = read_process(name)
        starts = self._starts.get((run, process.daemon), [])
        daemon = f"{name.rpartition('/')[0]}/0"
        if daemon in starts:
            start = starts.index(daemon) + 1
            who = process.daemon if start == 1 else f"{process.daemon}.{start}"
        else:
            who = f"{process.daemon}.{process.incarnation:x}?" if starts else process.daemon
        return f"{who}/{process.session}"

    def message(self, run: str, name: str) -> str:
        """What."""
        return f"{self.process(run, name.rpartition(':')[0])}:{read_message_id(name).number}"

    def view(self, run: str, group: str, name: str) -> str:
        """Where; the whole id where two views of the group would be called the same."""
        short = short_view(read_group_view(name))
        return f"{group} {short if self._short[run, group, short] < 2 else name}"


class _Said(dict[str, str]):
    """What a column that is null says: nothing."""

    def __missing__(self, _name: str) -> str:
        return ""
