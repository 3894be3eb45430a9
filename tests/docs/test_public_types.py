"""Every type that a user can meet in the public interface is exported and documented."""

import inspect
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

import hopring
from hopring import sync
from hopring.client import aio
from hopring.groups.events import Cause
from hopring.membership.snapshot import MembershipPhase
from hopring.session.options import Slow

PAGE = (Path(__file__).parents[2] / "docs" / "api.md").read_text()
PUBLIC = {name: getattr(hopring, name) for name in hopring.__all__}
MODULES = (hopring, sync)
ELSEWHERE = ("hopring.config", "hopring.check.trace", "hopring.check.rmp.peer_events")
"""Modules whose values `Cluster` and `Peers` return, as the page says."""

MADE_BY_CALLS = {"Job", "Session", "Group", "Connecting", "Joining", "Cluster", "Serving"}
"""Classes whose `__init__` is not for users."""

SPECIAL = {"__init__", "__iter__", "__aiter__", "__enter__", "__aenter__", "__await__"}
TIMES = re.compile(r"_(us|ms|ns|s|sec|secs|msec|usec|micros|millis|minutes)$")


def parts(kind: Any) -> Iterator[Any]:
    """A type and all types that it is composed of."""
    if isinstance(kind, list):
        for one in kind:
            yield from parts(one)
    elif get_origin(kind) is Literal or get_origin(kind) is None:
        yield kind
    else:
        yield get_origin(kind)
        for one in get_args(kind):
            yield from parts(one)


def hints_of(call: Any) -> dict[str, Any]:
    return get_type_hints(call, {"Session": aio.Session, **getattr(call, "__globals__", {})})


def members_of(kind: type) -> Iterator[tuple[str, dict[str, Any]]]:
    """Public attributes and calls of a class, with the types in them."""
    fields = get_type_hints(kind, {"Session": aio.Session, **vars(inspect.getmodule(kind) or hopring)})
    yield "", {name: one for name, one in fields.items() if not name.startswith("_")}
    for name, member in inspect.getmembers_static(kind):
        call = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        wanted = name in SPECIAL if name.startswith("_") else True
        if name == "__init__" and (kind.__name__ in MADE_BY_CALLS or fields):
            wanted = False  # Fields are checked separately.
        if wanted and inspect.isfunction(call) and (call.__module__ or "").startswith("hopring"):
            yield name, hints_of(call)


def met_in(module: ModuleType) -> Iterator[tuple[str, str, Any]]:
    """Yields place, name and type of every annotation in the public interface."""
    for name in module.__all__:
        one = getattr(module, name)
        if inspect.isfunction(one):
            for argument, kind in hints_of(one).items():
                yield name, argument, kind
        elif not isinstance(one, type):
            yield name, "", one
        elif not issubclass(one, Enum):
            for member, hints in members_of(one):
                for argument, kind in hints.items():
                    yield f"{name}.{member}", member if argument == "return" else argument, kind


def met() -> list[tuple[str, str, Any]]:
    return [one for module in MODULES for one in met_in(module)]


def test_every_type_that_users_meet_is_exported() -> None:
    public = [*PUBLIC.values(), *[getattr(sync, name) for name in sync.__all__]]
    ours = [
        (where, part)
        for where, _, kind in met()
        for part in parts(kind)
        if isinstance(part, type) and part.__module__.startswith("hopring")
    ]

    assert len(ours) > 100, "no types were found"
    hidden = [(where, kind) for where, kind in ours if kind not in public]
    assert [one for one in hidden if not one[1].__module__.startswith(ELSEWHERE)] == []
    assert all(f"`{one}" in PAGE for one in ELSEWHERE)


def test_literal_types_are_exported() -> None:
    literals = {get_args(part) for _, _, kind in met() for part in parts(kind) if get_origin(part) is Literal}
    exported = {get_args(one) for one in PUBLIC.values() if get_origin(one) is Literal}

    assert literals == exported


def test_literal_types_have_the_values_that_daemons_accept() -> None:
    assert set(get_args(hopring.SlowPolicy)) == {one.value for one in Slow}
    assert set(get_args(hopring.ViewCause)) == {one.value for one in Cause}
    assert set(get_args(hopring.DaemonPhase)) == {one.value for one in MembershipPhase}


@pytest.mark.parametrize("module", MODULES, ids=["asyncio", "blocking"])
def test_times_are_floats_in_seconds_everywhere(module: ModuleType) -> None:
    named = [(where, name, kind) for where, name, kind in met_in(module)]
    assert [one for one in named if TIMES.search(one[1])] == []

    seconds = [(where, kind) for where, name, kind in named if "seconds" in name.split("_")]
    assert len(seconds) > 5, "no times were found"
    allowed = {float, UnionType, type(None)}
    assert [one for one in seconds if not allowed.issuperset(parts(one[1]))] == []


@pytest.mark.parametrize("module", MODULES, ids=["asyncio", "blocking"])
def test_groups_and_sessions_have_the_same_verbs(module: Any) -> None:
    of_sessions = {
        *("join", "groups", "view", "daemon_facts", "link_weights", "close", "abort"),
        *(
            "daemon",
            "private_group",
            "message_bytes_max",
            "joined",
            "dropped_again",
            "expired",
            "connected",
            "ended",
        ),
        *("poll", "fileno", "handle_requests"),
    }
    session = {name for name in dir(module.Session) if not name.startswith("_")}
    group = {name for name in dir(module.Group) if not name.startswith("_")}

    assert session - of_sessions - {"name"} == group
