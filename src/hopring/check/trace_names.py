"""Names of the trace as text: processes, views and messages; text of ids sorts as the ids do."""

from collections.abc import Iterable
from functools import lru_cache
from typing import TypeVar

from hopring.check.trace import GroupViewName, MessageId, ProcessName, ViewName

NAMES_CACHED_MAX = 4096

T = TypeVar("T")


@lru_cache(NAMES_CACHED_MAX)
def process_text(process: ProcessName) -> str:
    """As in `a#0000000000000001/0`."""
    return f"{process.daemon}#{process.incarnation:016x}/{process.session}"


@lru_cache(NAMES_CACHED_MAX)
def read_process(text: str) -> ProcessName:
    """The process of this name."""
    start, _slash, session = text.rpartition("/")
    daemon, _sharp, incarnation = start.rpartition("#")
    return ProcessName(daemon, int(incarnation, 16), int(session))


def process_texts(processes: Iterable[ProcessName]) -> list[str]:
    """A list of them."""
    return [process_text(process) for process in processes]


def read_processes(texts: list[str] | None) -> tuple[ProcessName, ...]:
    """The processes of these names."""
    return tuple(read_process(text) for text in some(texts))


@lru_cache(NAMES_CACHED_MAX)
def view_text(view: ViewName) -> str:
    """Of fixed width."""
    return f"{view.counter:016x}.{view.representative:04x}.{view.nonce:016x}"


@lru_cache(NAMES_CACHED_MAX)
def read_view(text: str | None) -> ViewName:
    """The view of daemons with this name."""
    counter, representative, nonce = (int(part, 16) for part in some(text).split("."))
    return ViewName(counter, representative, nonce)


@lru_cache(NAMES_CACHED_MAX)
def group_view_text(view: GroupViewName) -> str:
    """The daemons' view, the way from there, and the step; `-` sorts before `/`, as no way does before any."""
    way = "".join([f"/{view_text(one)}" for one in view.path])
    return f"{view_text(view.view)}{way}-{view.step:08x}"


@lru_cache(NAMES_CACHED_MAX)
def read_group_view(text: str | None) -> GroupViewName:
    """The view of a group with this name."""
    way, _dash, step = some(text).rpartition("-")
    view, *path = way.split("/")
    return GroupViewName(read_view(view), tuple([read_view(one) for one in path]), int(step, 16))


def message_text(message: MessageId) -> str:
    """Its sender and its number."""
    return f"{process_text(message.sender)}:{message.number}"


def read_message_id(text: str | None) -> MessageId:
    """The message of this name."""
    sender, _colon, number = some(text).rpartition(":")
    daemon, incarnation, session = read_process(sender)
    return MessageId(daemon, incarnation, int(number), session)


def some(value: T | None) -> T:
    """What a kind of event cannot do without."""
    if value is None:
        raise ValueError("a column is empty that it needs")
    return value
