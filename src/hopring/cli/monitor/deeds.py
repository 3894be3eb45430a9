"""What a monitor does to daemons, for one-shot verbs and for the screen alike."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from hopring.cli.at_daemon import Late
from hopring.cli.exits import Exit, Failure
from hopring.cli.monitor.channels import Answer, Channels, Seen, Sight, choose
from hopring.cli.monitor.partition import Sides, cuts_of

LOOK_SECONDS: Final = 0.1
_OPERATIONAL: Final = ("OP", "GOP")


class Denied(Failure):
    """A daemon does not let us."""

    exit_code = int(Exit.AUTH)


def send_partition(channels: Channels, sight: Sight, sides: Sides) -> dict[str, Answer]:
    """Tells every daemon that can be told whom to cut off; Failure if the sides would not part by that."""
    try:
        cuts = cuts_of(sides, sight)
    except ValueError as error:
        raise Failure(str(error)) from None
    return channels.tell(sight.seen, "cut", lambda one: {"daemons": cuts[one.name]})


def heal(channels: Channels, sight: Sight) -> dict[str, Answer]:
    """Nothing is cut any more."""
    return channels.tell(sight.seen, "heal", lambda _: {})


def set_windows(
    channels: Channels, sight: Sight, names: Sequence[str], given: Mapping[str, int]
) -> dict[str, Answer]:
    """Other windows at these daemons, or at all."""
    return channels.tell(choose(sight, names), "window", lambda _: given)


def reload(channels: Channels, sight: Sight, names: Sequence[str]) -> dict[str, Answer]:
    """These daemons, or all, read their files again."""
    return channels.tell(choose(sight, names), "reload", lambda _: {})


def terminate(channels: Channels, sight: Sight, names: Sequence[str]) -> dict[str, Answer]:
    """These daemons end."""
    return channels.tell(choose(sight, names), "terminate", lambda _: {})


def wait_until_settled(channels: Channels, names: Iterable[str], seconds: float) -> Sight:
    """Waits until these daemons are operational, and in one view with all of them that have the same
    configuration and are not cut off; Late if that takes too long."""
    wanted = set(names)
    end = time.monotonic() + seconds
    while True:
        sight = channels.look()
        those = [one for one in sight.seen if one.name in wanted]
        if len(those) == len(wanted) and all(_settled(one, those) for one in those):
            return sight
        if time.monotonic() > end:
            raise Late(f"the daemons are not settled after {seconds:g} s; see `hop monitor status`")
        time.sleep(LOOK_SECONDS)


def wait_until_gone(channels: Channels, names: Iterable[str], seconds: float) -> None:
    """Waits until none of these answers any more."""
    wanted, end = set(names), time.monotonic() + seconds
    while wanted & {one.name for one in _look_or_nothing(channels)}:
        if time.monotonic() > end:
            raise Late(f"{', '.join(sorted(wanted))} did not end within {seconds:g} s")
        time.sleep(LOOK_SECONDS)


def _look_or_nothing(channels: Channels) -> tuple[Seen, ...]:
    try:
        return channels.look().seen
    except Failure:
        return ()  # The last socket is gone, too.


def _settled(one: Seen, those: Sequence[Seen]) -> bool:
    status = one.status
    if (status["phase"], status.get("groups_state", "GOP")) != _OPERATIONAL or status.get("reloading"):
        return False
    alike = [other for other in those if other.status["hash"] == status["hash"]]
    near = [other for other in alike if other.name not in status["cut"] and one.name not in other.status["cut"]]
    return all(other.name in status["members"] and other.status["view"] == status["view"] for other in near)
