"""Lives of daemons and their stays in views: the small tables that everything else is joined with.

There is a row for each view that each process installed, and none for a message. So they are made here, in the
driver, from these few events: planning and compiling queries for them would take Spark longer.

A *stay* is one process's time in one view, numbered from 1 in each life; stay 0 is the time before the first
view. A view that a process installs a second time is another *view_id*, for which `nth` is above 1: sets of
processes in a view are those of `nth` 1, as the plain checker has them. Sets are numbers here, with a bit for
each process by its number in the history.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from hopring.check.properties.resilience import COUNTED
from hopring.check.properties.sql import LIVES_MAX
from hopring.ordering.holders import MAJORITY
from hopring.spark.audit.reading import Ends

SMALL: Final = """
SELECT run, process, daemon, position, kind, view, members, transitional_set, file, row,
       coalesce(primary, '') AS primary
FROM audit_trace WHERE kind IN ('recover', 'crash', 'view', 'transitional')
"""

FOREVER: Final = (1 << 63) - 1

Fields = Mapping[str, Any]
Numbers = dict[str, int]
"""The processes that a history names, by number."""


@dataclass(slots=True)
class DaemonLife:
    """One process that did something; the starts of a daemon are in their order."""

    run: str
    process: str
    daemon: str
    high: int  # Its last position.
    number: int = 0
    start: int = 0
    starts: int = 0
    crashed: bool = False
    alive: bool = False  # At a quiet end.
    itself: int = 0
    moves: list[Fields] = field(default_factory=list)  # Views and signals, by position.
    seen: tuple[str, int] | None = None  # Its first event: in which file, in which row.


@dataclass(slots=True)
class DaemonStay:
    """A process in a view, with its neighbours, its sets, and its signals."""

    life: DaemonLife
    stay: int
    nth: int
    view: str | None
    begins: int
    members: int
    together: int
    primary: str = ""  # Why its view is primary.
    ends: int = FOREVER
    before: "DaemonStay | None" = None
    after: "DaemonStay | None" = None
    view_id: int = 0
    signals: int = 0
    cut: int | None = None  # The position of its first signal.
    misplaced_signal: int | None = None  # The first that names another view.
    signal_together: int = 0

    @property
    def id(self) -> int:
        """View and process in one number."""
        return self.view_id * LIVES_MAX + self.life.number

    @property
    def ended(self) -> bool:
        """Whether the process ended in this view."""
        return self.stay > 0 and self.after is None and not self.life.alive


def number_processes(extent: Iterable[Fields], small: Iterable[Fields]) -> dict[str, Numbers]:
    """By run: all processes that it names, in the order of their names."""
    named: dict[str, set[str]] = defaultdict(set)
    for row in extent:
        named[row["run"]].add(row["process"])
    for row in small:
        named[row["run"]].update(row["members"] or (), row["transitional_set"] or ())
    return {run: {name: number for number, name in enumerate(sorted(names))} for run, names in named.items()}


def lives_of(
    extent: Iterable[Fields],
    small: Iterable[Fields],
    numbers: Mapping[str, Numbers],
    ends: Mapping[str, Ends],
    otherwise: Ends,
) -> list[DaemonLife]:
    """All lives, each with its moves."""
    found = {
        (row["run"], row["process"]): DaemonLife(row["run"], row["process"], row["daemon"], row["high"])
        for row in extent
    }
    for row in small:
        life = found[row["run"], row["process"]]
        if row["position"] == 0:
            life.seen = (row["file"], row["row"])
        if row["kind"] == "crash":
            life.crashed = True
        elif row["kind"] != "recover":
            life.moves.append(row)
    for life in found.values():
        life.moves.sort(key=lambda move: int(move["position"]))
        life.number = numbers[life.run][life.process]
        life.itself = 1 << life.number
    _order_starts(found.values())
    for life in found.values():
        life.alive = ends.get(life.run, otherwise).quiet and not life.crashed
    return list(found.values())


def _order_starts(lives: Iterable[DaemonLife]) -> None:
    by_daemon: dict[tuple[str, str], list[DaemonLife]] = defaultdict(list)
    for life in lives:
        by_daemon[life.run, life.daemon].append(life)
    for starts in by_daemon.values():
        starts.sort(key=lambda life: (life.seen is not None, life.seen or ("", 0), life.process))
        for start, life in enumerate(starts, start=1):
            life.start, life.starts = start, len(starts)
            # A daemon that starts again had ended, even if in silence.
            life.crashed = life.crashed or start < len(starts)


def stays_of(lives: Iterable[DaemonLife], numbers: Mapping[str, Numbers]) -> list[DaemonStay]:
    """All stays, each with its view_id."""
    view_ids: dict[tuple[str, str | None, int], int] = {}
    found = []
    for life in lives:
        for stay in _follow(life, numbers[life.run]):
            stay.view_id = view_ids.setdefault((life.run, stay.view, stay.nth), len(view_ids))
            found.append(stay)
    return found


def _follow(life: DaemonLife, numbers: Numbers) -> list[DaemonStay]:
    """Cuts a life into its stays."""
    stays = [DaemonStay(life, 0, 1, None, -1, 0, 0)]
    times: Counter[str] = Counter()
    for move in life.moves:
        together = _set(move["transitional_set"], numbers)
        if move["kind"] == "view":
            view = move["view"]
            times[view] += 1
            members = _set(move["members"], numbers)
            place = len(stays), times[view], view, move["position"]
            stays.append(DaemonStay(life, *place, members, together, move["primary"]))
        else:
            _signal(stays[-1], move, together)
    for before, after in pairwise(stays):
        before.after, after.before, before.ends = after, before, after.begins
    return stays


def _signal(stay: DaemonStay, move: Fields, together: int) -> None:
    stay.signals += 1
    if stay.cut is None:
        stay.cut, stay.signal_together = move["position"], together
    if stay.misplaced_signal is None and move["view"] != stay.view:
        stay.misplaced_signal = move["position"]


def _set(names: Iterable[str] | None, numbers: Numbers) -> int:
    bits = 0
    for name in names or ():
        bits |= 1 << numbers[name]
    return bits


def process_rows(numbers: Mapping[str, Numbers]) -> Iterator[Fields]:
    """A row for each process of each history."""
    for run, names in numbers.items():
        for process, number in names.items():
            yield {"run": run, "process": process, "number": number, "self": 1 << number}


def life_rows(lives: Iterable[DaemonLife]) -> Iterator[Fields]:
    """A row for each life of a daemon."""
    plain = ("run", "process", "daemon", "high", "number", "start", "starts", "crashed", "alive")
    for life in lives:
        yield {name: getattr(life, name) for name in plain} | {"self": life.itself}


def stay_rows(stays: Iterable[DaemonStay]) -> Iterator[Fields]:
    """A row for each stay, with columns of the stays before and after it."""
    plain = ("id", "view_id", "stay", "nth", "view", "begins", "ends", "members", "together", "cut", "signals")
    more = ("misplaced_signal", "signal_together", "ended", "primary")
    for stay in stays:
        life, before, after = stay.life, stay.before, stay.after
        yield {name: getattr(stay, name) for name in (*plain, *more)} | {
            "run": life.run,
            "process": life.process,
            "daemon": life.daemon,
            "alive": life.alive,
            "self": life.itself,
            "group_name": "",
            "earlier_view": before.view if before else None,
            "before_view": before.view if before else None,
            "after_view": after.view if after else None,
            "before_members": before.members if before else 0,
            "after_together": after.together if after else 0,
        }


def view_rows(stays: Iterable[DaemonStay]) -> Iterator[Fields]:
    """One row per view: the processes that installed it, that ended in it, and that had a signal in it.

    The time before the first views has a view_id too, without a view, which nobody installed.
    """
    for view_id, inside in _by(stays, lambda stay: stay.view_id).items():
        first = inside[0]
        shown = [stay for stay in inside if stay.stay > 0]
        yield {
            "view_id": view_id,
            "run": first.life.run,
            "view": first.view,
            "nth": first.nth,
            "installed": _union(stay.life.itself for stay in shown),
            "ended": _union(stay.life.itself for stay in shown if stay.ended),
            "signalled": _union(stay.life.itself for stay in shown if stay.signals),
        }


def move_rows(stays: Iterable[DaemonStay]) -> Iterator[Fields]:
    """Processes that left one view for the same next one, each with its companions.

    Companions by 2.7: one is in the transitional set of the other. Processes with the same set are treated as
    one: there are few sets in a view, and there may be many processes.
    """
    left = [stay for stay in stays if stay.stay > 0 and stay.nth == 1 and stay.after]
    for group in _by(left, lambda stay: (stay.view_id, stay.after and stay.after.view)).values():
        everybody = _union(stay.life.itself for stay in group)
        holders = _by(group, lambda stay: stay.after.together if stay.after else 0)
        sets = [(together, _union(one.life.itself for one in same)) for together, same in holders.items()]
        for stay in group:
            assert stay.after is not None, "they left"
            named_by = _union(same for together, same in sets if together & stay.life.itself)
            yield {
                "id": stay.id,
                "view_id": stay.view_id,
                "run": stay.life.run,
                "process": stay.life.process,
                "view": stay.view,
                "after_view": stay.after.view,
                "self": stay.life.itself,
                "companions": stay.after.together & everybody | named_by,
            }


def owed_rows(stays: Iterable[DaemonStay]) -> Iterator[Fields]:
    """By view: its members, and those that come along from it; each set with the processes that report it."""
    shown = [stay for stay in stays if stay.stay > 0]
    for (view_id, members), same in _by(shown, lambda stay: (stay.view_id, stay.members)).items():
        said_by = _union(stay.life.itself for stay in same)
        yield {"view_id": view_id, "kind": "members", "owed": members, "said_by": said_by}
    left = [stay for stay in shown if stay.after]
    for (view_id, together), same in _by(
        left, lambda stay: (stay.view_id, stay.after.together if stay.after else 0)
    ).items():
        said_by = _union(stay.life.itself for stay in same)
        yield {"view_id": view_id, "kind": "behind", "owed": together, "said_by": said_by}


def survivor_rows(stays: Iterable[DaemonStay], levels: Iterable[int]) -> Iterator[Fields]:
    """By view and resilience: the processes that go on with so many that they have such messages."""
    shown = [stay for stay in stays if stay.stay > 0 and stay.nth == 1 and not stay.ended]
    for view_id, inside in _by(shown, lambda stay: stay.view_id).items():
        for level in levels:
            owed = _union(stay.life.itself for stay in inside if is_promised(stay, level))
            yield {"view_id": view_id, "resilience": level, "owed": owed}


def is_promised(stay: DaemonStay, level: int) -> bool:
    """Whether what one knew before the signal must have survived with this process."""
    after = stay.after
    if after is None:
        return True
    if level == MAJORITY:
        return after.primary in COUNTED and 2 * after.together.bit_count() > stay.members.bit_count()
    return (stay.members & ~after.together).bit_count() <= level


def outside_rows(stays: Iterable[DaemonStay]) -> Iterator[Fields]:
    """By view: the processes that may deliver no majority message before the signal, and behind it."""
    for view_id, inside in _by((one for one in stays if one.stay > 0), lambda stay: stay.view_id).items():
        early = [stay for stay in inside if not stay.primary]
        late = [stay for stay in inside if not (stay.primary and (stay.after is None or stay.after.primary))]
        early_set, late_set = (_union(stay.life.itself for stay in some) for some in (early, late))
        yield {"view_id": view_id, "early": early_set, "late": late_set}


def _by(stays: Iterable[DaemonStay], key: Any) -> dict[Any, list[DaemonStay]]:
    groups: dict[Any, list[DaemonStay]] = defaultdict(list)
    for stay in stays:
        groups[key(stay)].append(stay)
    return groups


def _union(sets: Iterable[int]) -> int:
    whole = 0
    for one in sets:
        whole |= one
    return whole
