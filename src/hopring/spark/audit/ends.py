"""How a history ended, which the trace itself does not say."""

from collections.abc import Iterable, Mapping

from hopring.value import Value


class Ends(Value, frozen=True):
    """What is known of the end of a history; the meaning is that of `check_evs`."""

    quiet: bool = False
    components: tuple[frozenset[str], ...] | None = None
    counters_survive: bool = True
    many_sessions: bool = False  # 2.11 is promised to each session, not to all of a daemon taken together.


def rows_of(
    runs: Iterable[str], ends: Mapping[str, Ends], otherwise: Ends
) -> tuple[list[tuple[str, bool, bool]], list[tuple[str, int, str]]]:
    """The same as rows: flags by run, and the daemons of each component."""
    flags, components = [], []
    for run in runs:
        one = ends.get(run, otherwise)
        flags.append((run, one.quiet, one.counters_survive))
        for number, component in enumerate(one.components or ()):
            components += [(run, number, daemon) for daemon in sorted(component)]
    return flags, components
