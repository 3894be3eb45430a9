"""What an application sends, before there is a bundle: one message, or many that share all but their bodies."""

from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Final, NamedTuple

from hopring.client.errors import MessageTooLarge, RequestRefused
from hopring.groups.private_groups import PRIVATE, is_private, split_private
from hopring.ids import GroupName
from hopring.services import Service
from hopring.wire.bundle import GROUP_NAME_BYTES_MAX, GROUPS_MAX, MESSAGES_MAX

TYPE_MAX: Final = 0xFFFF
_NO_PRIVATE: Final = (
    "a name has no #; only private groups do, #name#daemon, to which messages are sent without a join"
)
Buffer = bytes | bytearray | memoryview
Data = Buffer | Sequence[Buffer]
"""A message: one buffer, or several that are sent end to end."""

BUNDLE_BYTES_AIM: Final = 62_000
"""The bodies of a bundle, and what each message adds to them: this fills a train of datagrams.

A little more would make a second train for the rest; much more saves little, and what follows waits longer."""


class Sending(NamedTuple):
    """A message that is to be sent, by whatever connection there will be; `checked_groups` made its groups."""

    groups: tuple[GroupName, ...]
    data: bytes
    service: Service = Service.AGREED
    message_type: int = 0
    self_discard: bool = False


@lru_cache(maxsize=256)
def checked_groups(groups: tuple[str, ...]) -> tuple[GroupName, ...]:
    """Groups to send to; remembered, because sessions send to the same groups again and again."""
    if not 0 < len(groups) <= GROUPS_MAX or len(set(groups)) < len(groups):
        raise RequestRefused(" ".join(groups), "not 1 to 128 different groups", "name each group once")
    for name in groups:
        check_group(name)
    return tuple([GroupName(name) for name in groups])


def check_group(name: str) -> None:
    """Whether there can be such a group, a private one included."""
    _check_name(name)
    if PRIVATE in name and not (is_private(GroupName(name)) and all(split_private(GroupName(name)))):
        raise RequestRefused(name, "illegal group", _NO_PRIVATE)


@lru_cache(maxsize=256)
def checked_plain_group(name: str) -> GroupName:
    """A group that is not private."""
    _check_name(name)
    if PRIVATE in name:
        raise RequestRefused(name, "illegal group", _NO_PRIVATE)
    return GroupName(name)


def _check_name(name: str) -> None:
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        size = 0
    if not 0 < size <= GROUP_NAME_BYTES_MAX or "\0" in name:
        remedy = f"choose a name of 1 to {GROUP_NAME_BYTES_MAX} bytes of UTF-8 without NUL"
        raise RequestRefused(name, "illegal group", remedy)


class Many:
    """Messages with the same key that are on their way out; `at` is the first that has not gone."""

    def __init__(self, sending: Sending, bodies: Sequence[bytes]) -> None:
        self.sending = sending  # Of each of them, but for the body.
        self.bodies = bodies
        self.at = 0
        self._bytes = sum(map(len, bodies))
        self._longest = -1  # Not looked for yet.
        self._ends: list[int] = []  # Of each body, from 0 on, if they do not go all at once.

    @property
    def left(self) -> int:
        """How many have not gone."""
        return len(self.bodies) - self.at

    def check(self, message_bytes_max: int) -> None:
        """MessageTooLarge if there is one that the daemon never takes; none has gone then."""
        if self._bytes <= message_bytes_max:
            return
        if self._longest < 0:
            self._longest = max(map(len, self.bodies))
        if self._longest > message_bytes_max:
            raise MessageTooLarge(self._longest, message_bytes_max)

    def portion(self, room_bytes: int, each_bytes: int) -> int:
        """How many of the next ones make a bundle that fits the room, of which each takes so much more."""
        room_bytes = min(BUNDLE_BYTES_AIM, room_bytes)
        left = len(self.bodies)
        if not self.at and left <= MESSAGES_MAX and self._bytes + left * each_bytes <= room_bytes:
            return left
        self._ends = self._ends or list(accumulate(map(len, self.bodies), initial=0))
        begin, at = self._ends[self.at], self.at
        count = bisect_right(
            range(1, min(MESSAGES_MAX, self.left) + 1),
            room_bytes,
            key=lambda count: self._ends[at + count] - begin + count * each_bytes,
        )
        return max(1, count)

    def next_bytes(self) -> int:
        """Of the next body."""
        return len(self.bodies[self.at])

    def take(self, count: int) -> Sequence[bytes]:
        """The next so many bodies; they have gone."""
        self.at += count
        return self.bodies[self.at - count : self.at]
