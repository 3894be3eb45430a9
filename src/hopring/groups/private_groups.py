"""Private groups: messages to `#name#daemon` reach that one session, without a join."""

from typing import Final

from hopring.ids import GroupName

PRIVATE: Final = "#"


def is_private(group: GroupName) -> bool:
    """Whether this is the name of a private group."""
    return group.startswith(PRIVATE)


def private_group(name: str, daemon: str) -> GroupName:
    """The private group of a session."""
    return GroupName(f"{PRIVATE}{name}{PRIVATE}{daemon}")


def split_private(group: GroupName) -> tuple[str, str]:
    """Session and daemon of a private group; empty strings if the name is malformed."""
    parts = group.split(PRIVATE)
    return (parts[1], parts[2]) if len(parts) == 3 else ("", "")
