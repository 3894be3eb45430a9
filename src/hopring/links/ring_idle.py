"""When the token may stop: the idle policy of the Ring.

The token carries `quiet`, how many visits in a row found nothing to do. Only the representative may keep it,
and only by state: two whole rotations in which nobody sent, asked, changed a value or owed a promise. Time
alone never stops the token, or the last messages would never become stable.
"""

QUIET_MAX = 0xFFFF
"""The field has 16 bits; more silence than this looks the same."""


def quiet_after(quiet: int, active: bool) -> int:
    """The count that a visit writes on the token."""
    return 0 if active else min(quiet + 1, QUIET_MAX)


def may_stop(quiet: int, members: int) -> bool:
    """Whether a token that reaches the representative with this count has seen two silent rotations."""
    return quiet >= 2 * members


def rest_us(hold_us: int, rest_us_max: int, quiet: int, members: int) -> int:
    """How long the token is held: the longer, the longer nothing has happened, if that is wished.

    Whoever wants it gets it at once all the same.
    """
    silent_rotations = quiet // members
    return max(hold_us, min(hold_us * (silent_rotations - 1), rest_us_max))


def may_be_stopped(quiet: int, index: int, members: int) -> bool:
    """Whether the token that member `index` passed with this count may be waiting at the representative.

    If not, it is certain to come round by itself, and nobody needs to hurry it.
    """
    return may_stop(quiet + members - 1 - index, members)
