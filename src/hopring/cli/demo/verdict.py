"""The verdict on what was recorded: the clients' history by EVS-C, the daemons' by EVS.

The check of daemons takes it that every daemon delivers every bundle, so it is for traces without pruning: here
every group has members in every site.
"""

from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec

from hopring.check import trace
from hopring.check.judge import check_evs, check_evs_c
from hopring.check.trace_files import TraceError, read_json_lines, write_json_lines
from hopring.cli.demo.facts import Judged

TRACE_FILE = "trace.jsonl"
STORY_FILE = "story.json"


class Recorded(msgspec.Struct, frozen=True):
    """What belongs to a trace and is not in it."""

    daemons: list[str]
    quiet_end: bool  # Whether everything had come to rest.
    marks: list[tuple[str, int]]  # The phases, each with the moment when it began.


def judge(history: Sequence[trace.Event], quiet_end: bool, names: Collection[str]) -> list[Judged]:
    """Both histories; with a quiet end also that everybody has everything, in one view of all."""
    components = [names] if quiet_end else None
    clients = [event for event in history if isinstance(event, trace.ClientEvent)]
    daemons = [event for event in history if not isinstance(event, trace.ClientEvent)]
    return [
        Judged("clients, EVS-C", len(clients), check_evs_c(history, quiet_end, components)),
        Judged("daemons, EVS", len(daemons), check_evs(daemons, quiet_end, components)),
    ]


def write_down(directory: Path, history: Sequence[trace.Event], recorded: Recorded) -> Path:
    """The trace of all, daemons and clients, and what belongs to it."""
    with (directory / TRACE_FILE).open("wb") as file:
        write_json_lines(history, file)
    (directory / STORY_FILE).write_bytes(msgspec.json.encode(recorded) + b"\n")
    return directory / TRACE_FILE


def judge_again(directory: Path) -> list[Judged]:
    """Judges what an earlier run left; TraceError if it is no such thing."""
    try:
        recorded = msgspec.json.decode((directory / STORY_FILE).read_bytes(), type=Recorded)
        with (directory / TRACE_FILE).open("rb") as file:
            history = read_json_lines(file)
    except (OSError, msgspec.DecodeError) as error:
        raise TraceError(
            f"{directory} has no trace of a demonstration ({error}); give the directory of `hop demo --out`"
        ) from None
    return judge(history, recorded.quiet_end, recorded.daemons)
