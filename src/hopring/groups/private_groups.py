"""Private groups: a session's is `#name#daemon`. What is sent there reaches that session, without a join."""

from typing import Final

from hopring.ids import GroupName

PRIVATE: Final = "#"


def is_private(group: GroupName) -> bool:
    """Whether this is the private group of a session."""
    return group.startswith(PRIVATE)


def private_group(name: str, daemon: str) -> GroupName:
    """The group that only this session is in."""
    return GroupName(f"{PRIVATE}{name}{PRIVATE}{daemon}")


def split_private(group: GroupName) -> tuple[str, str]:
    """Session and daemon of a private group; empty names if it is nobody's."""
    parts = group.split(PRIVATE)
    return (parts[1], parts[2]) if len(parts) == 3 else ("", "")
