"""All properties of the long-haul service on one history."""

from collections.abc import Iterable

from hopring.check.properties.property import Verdict
from hopring.check.wide.history import WideEvent, index_wide
from hopring.check.wide.properties import WIDE_JUDGES


def check_wide(events: Iterable[WideEvent]) -> list[Verdict]:
    """Judges a history that has come to a quiet end."""
    history = index_wide(events)
    return [judge(history) for judge in WIDE_JUDGES]
