"""What can be tuned of groups."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupsOptions:
    """Limits and times."""

    session_queue_bytes_max: int = 4 * 1024 * 1024  # Of requests that wait, for each session.
    groups_bytes_max: int = 48 * 1024  # Of one part of GROUPS, about.
    linger_us: int = 120_000_000  # So long a daemon stays interested in a group that nobody here is in.
