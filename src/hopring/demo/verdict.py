"""Checks of the recorded history: clients by EVS-C, daemons by EVS, and both again by the pipeline on Spark.

The check of daemons assumes that every daemon delivers every bundle, so it needs traces without pruning: here
every group has members in every site. Without Spark the demonstration is complete except for its report.
"""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import msgspec

from hopring.check import trace
from hopring.check.judge import check_evs, check_evs_c
from hopring.check.trace_files import TraceError, read_json_lines, write_json_lines
from hopring.demo.figures import JudgedHistory
from hopring.spark import session
from hopring.spark.audit.reading import Ends
from hopring.spark.errors import NoJava
from hopring.spark.java import decide, look

TRACE_FILE = "trace.jsonl"
STORY_FILE = "story.json"


DIRECTORY: Final = "pipeline"
REPORT_FILE: Final = "report.html"
INSTALL: Final = "no report: it is made with Spark, which is not installed; pip install 'hopring[spark,jdk]'"
LEFT_OUT: Final = "no report: left out by --no-spark"


class PipelineOutcome(msgspec.Struct, frozen=True):
    """The result of the pipeline."""

    report: Path
    holds: bool  # The audit found nothing broken.


class DemoRecord(msgspec.Struct, frozen=True):
    """What a later check needs besides the trace."""

    daemons: list[str]
    quiet_end: bool  # Whether everything had come to rest.
    marks: list[tuple[str, int]]  # The phases, each with the moment when it began.


def judge(history: Sequence[trace.Event], quiet_end: bool, names: Collection[str]) -> list[JudgedHistory]:
    """Checks both histories; with a quiet end also that all messages arrived, in one view of all."""
    components = [names] if quiet_end else None
    clients = [event for event in history if isinstance(event, trace.ClientEvent)]
    daemons = [event for event in history if not isinstance(event, trace.ClientEvent)]
    return [
        JudgedHistory("clients, EVS-C", len(clients), check_evs_c(history, quiet_end, components)),
        JudgedHistory("daemons, EVS", len(daemons), check_evs(daemons, quiet_end, components)),
    ]


def write_down(directory: Path, history: Sequence[trace.Event], recorded: DemoRecord) -> Path:
    """Writes the trace of daemons and clients, and the record beside it."""
    with (directory / TRACE_FILE).open("wb") as file:
        write_json_lines(history, file)
    (directory / STORY_FILE).write_bytes(msgspec.json.encode(recorded) + b"\n")
    return directory / TRACE_FILE


def judge_again(directory: Path) -> list[JudgedHistory]:
    """Checks the trace of an earlier run; TraceError if the directory has none."""
    try:
        recorded = msgspec.json.decode((directory / STORY_FILE).read_bytes(), type=DemoRecord)
        with (directory / TRACE_FILE).open("rb") as file:
            history = read_json_lines(file)
    except (OSError, msgspec.DecodeError) as error:
        raise TraceError(
            f"{directory} has no trace of a demonstration ({error}); give the directory of `hop demo --out`"
        ) from None
    return judge(history, recorded.quiet_end, recorded.daemons)


def lacking(find: Callable[[str], object] = find_spec) -> str | None:
    """What has to be installed first, in one line; None if nothing."""
    if find("pyspark") is None or find("pyarrow") is None:
        return INSTALL
    try:
        decide(look(os.environ))
    except NoJava as error:
        return f"no report: {error}"
    return None


def run_pipeline(
    spools: Mapping[str, Path], trace: Path, directory: Path, ends: Ends, say: Callable[[str], None]
) -> PipelineOutcome:
    """Makes tables, audit and report; SparkError if that fails."""
    # Loaded here: it takes Spark with it, and a demonstration without it should not wait.
    pipeline = import_module("hopring.spark.pipeline")
    out = directory / DIRECTORY
    store = pipeline.Store(out)
    store.open()
    spark = session("hop demo")
    try:
        stock = tuple([pipeline.SpoolRoot(name, str(path)) for name, path in sorted(spools.items())])
        found = pipeline.run(spark, pipeline.PipelineOptions(out, stock, trace, ends=ends), store, say)
    finally:
        spark.stop()
    assert found is not None, "there is a trace, so there is an audit"
    return PipelineOutcome(out / REPORT_FILE, found.holds)
