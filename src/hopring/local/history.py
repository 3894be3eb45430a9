"""The traces of a local cluster's daemons, read back as one history."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from hopring.check import trace
from hopring.check.trace_files import TraceRow, events


def read_traces(files: Mapping[str, Path], living: Iterable[str]) -> list[trace.Event]:
    """All traces one behind the other; whoever ended without a word, and is not back, has crashed."""
    history: list[trace.Event] = []
    for name, file in files.items():
        of_daemon = list(events(_rows(file)))
        history += of_daemon
        if of_daemon and name not in living and not isinstance(of_daemon[-1], trace.Crash):
            history.append(trace.Crash(of_daemon[-1].process, of_daemon[-1].at_us))
    return history


def _rows(file: Path) -> list[TraceRow]:
    if not file.exists():
        return []
    decoder = msgspec.json.Decoder(TraceRow)
    whole, newline, _torn = file.read_bytes().rpartition(b"\n")
    return [decoder.decode(line) for line in (whole + newline).splitlines()]
