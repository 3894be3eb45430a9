"""How often the end of an idle link gives a sign of life, and how long a silence fails the link.

Each sign wakes up two daemons that have nothing else to do, so it is given seldom: a few in the time after
which silence counts as death; and if the daemon is awake anyway, a little before its time. When one is missing,
Hop asks for another, again and again, before it gives up.
"""

from typing import Final

BEAT_US_MAX: Final = 330_000
"""A little more than three turns of a resting token, so that it rides with every third one."""

SILENCES_MAX: Final = 4
"""The limit of silence never grows beyond so many times what was asked for."""

_BEATS_IN_SILENCE: Final = 3
_RIDE_PART: Final = 3
_ROUND_TRIPS_IN_SILENCE: Final = 8


def beat_us(heartbeat_us: int, silence_us: int) -> int:
    """The time between two signs of life; what fits the silence if nothing (0) was asked for."""
    return heartbeat_us or min(BEAT_US_MAX, silence_us // _BEATS_IN_SILENCE)


def silence_limit_us(round_trip_us: int, silence_us: int) -> int:
    """The silence that fails a link: longer where an answer, or a repetition, takes longer.

    Bounded, because a pause of this host looks like a long round trip.
    """
    return min(max(_ROUND_TRIPS_IN_SILENCE * round_trip_us, silence_us), SILENCES_MAX * silence_us)


def ride_us(again_us: int) -> int:
    """So much before its time the next sign of life, which is due after this, may be given."""
    return again_us // _RIDE_PART
