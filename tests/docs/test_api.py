"""The API page names everything that is public, with arguments and fields, and nothing else."""

import dataclasses
import inspect
import re
from pathlib import Path
from typing import Literal, get_args, get_origin

import msgspec
import pytest

import hopring
from hopring import sync
from hopring.client.receiving.sequence import COLUMNS

PAGE = (Path(__file__).parents[2] / "docs" / "api.md").read_text()
SYNC_ONLY = {"poll", "fileno", "handle_requests"}


def section(name: str) -> str:
    """The text below a heading, up to the next heading."""
    (text,) = re.findall(rf"^##+ `?{re.escape(name)}`?\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return str(text)


def first_column(text: str) -> list[str]:
    return re.findall(r"^\| `([^`]+)`", text, re.MULTILINE)


def members(kind: type) -> set[str]:
    """Methods, properties, and attributes that `__init__` sets."""
    source = inspect.getsource(vars(kind)["__init__"])
    names = {name for name in dir(kind) if not name.startswith("_")}
    return names | set(re.findall(r"^ +self\.([a-z]\w*)\b.* = ", source, re.MULTILINE))


def fields_of(kind: type) -> list[str]:
    if issubclass(kind, tuple):
        return list(kind._fields)  # type: ignore[attr-defined]
    if issubclass(kind, msgspec.Struct):
        return list(kind.__struct_fields__)
    return [one.name for one in dataclasses.fields(kind)]  # type: ignore[arg-type]


def arguments(call: object) -> list[str]:
    return [name for name in inspect.signature(call).parameters if name != "self"]  # type: ignore[arg-type]


def test_every_public_name_is_on_the_page() -> None:
    code = set(re.findall(r"`(\w+)`", PAGE))

    assert set(hopring.__all__) - code == set()


def test_every_heading_names_something_public() -> None:
    named = set(re.findall(r"^##+ `(\w+)`$", PAGE, re.MULTILINE))

    assert named <= set(hopring.__all__)


@pytest.mark.parametrize("module", [hopring, sync], ids=lambda module: str(module.__name__))
def test_the_arguments_of_connect(module: object) -> None:
    assert first_column(section("connect")) == arguments(module.connect)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["Session", "Group"])
def test_members_of_sessions_and_groups_with_their_arguments(name: str) -> None:
    shown = {one.partition("(")[0]: one[len(one.partition("(")[0]) :] for one in first_column(section(name))}
    ours, theirs = getattr(hopring, name), getattr(sync, name)

    assert set(shown) == members(ours)
    assert members(theirs) - SYNC_ONLY == members(ours)
    for member, rest in shown.items():
        call = getattr(ours, member, None)
        assert rest.startswith("(") is callable(call)
        if callable(call):
            inside = [one for one in rest.strip("()").split(", ") if one]
            assert inside == arguments(call)
            assert set(arguments(getattr(theirs, member))) - set(inside) <= {"timeout_seconds"}


@pytest.mark.parametrize(
    "name",
    [
        *("Message", "View", "Transition", "Reconnected", "ReconnectGap", "Member"),
        *("Gap", "SlowWarning", "GroupInfo", "GroupMembers", "DaemonView", "ReasonFacts"),
        *(
            "DaemonFacts",
            "ConfiguredDaemon",
            "LockInfo",
            "LinkFacts",
            "LinkWeights",
            "WeighedLink",
            "Place",
            "ViewId",
            "GroupViewId",
        ),
        *("Receipt", "EventSequence", "MessageRun", "Taken", "Reconnect"),
    ],
)
def test_fields_of_values(name: str) -> None:
    kind = getattr(hopring, name)
    fields = [one for one in fields_of(kind) if not one.startswith("_")]
    more = {one for one in dir(kind) if not one.startswith("_")} - set(fields) - set(dir(tuple))
    shown = [one.removesuffix("()") for one in first_column(section(name))]

    assert set(shown) == {*fields, *more}
    assert [one for one in shown if one in fields] == fields


def test_errors_with_their_bases_and_fields() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| (.*?) ?\|", section("Errors"), re.MULTILINE)
    errors = {name for name in hopring.__all__ if _is_error(getattr(hopring, name))}

    assert {name for name, _, _ in rows} == errors
    for name, base, fields in rows:
        kind = getattr(hopring, name)
        assert base in [one.__name__ for one in kind.__mro__[1:]]
        shown = re.findall(r"`(\w+)`", fields)
        source = inspect.getsource(kind.__init__) if kind is not hopring.HopError else ""
        assert shown == list(dict.fromkeys(re.findall(r"self\.(\w+) = ", source)))


def _is_error(one: object) -> bool:
    return isinstance(one, type) and issubclass(one, Exception)


def test_services_are_named_from_the_weakest() -> None:
    named = re.findall(r"`([A-Z]+)`", section("Services"))

    assert named == [one.name for one in sorted(hopring.Service)]


def test_the_schema_of_tables() -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow: make arrow")
    shown = re.findall(r"^\| (\w+) \| ([^|]+) \|", section("EventSequence"), re.MULTILINE)
    rows = [(name, kind) for name, kind in shown if name != "column"]
    schema = hopring.EventSequence(()).to_arrow().schema
    kinds = {"timestamp[us, tz=UTC]": "timestamp[us, UTC]", "list<element: string>": "list of string"}
    kinds["list<item: string>"] = "list of string"

    assert tuple(name for name, _ in rows) == COLUMNS
    for name, kind in rows:
        ours = str(schema.field(name).type)
        if ours.startswith("struct"):
            ours = "struct of " + ours.removeprefix("struct<").removesuffix(">").replace(":", "")
        assert kind == kinds.get(ours, ours)


def test_literal_types_list_their_values() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", section("Words with few values"), re.MULTILINE)
    public = {name: getattr(hopring, name) for name in hopring.__all__}
    literals = {name: get_args(one) for name, one in public.items() if get_origin(one) is Literal}

    assert {name: tuple(re.findall(r'"(\w*)"', values)) for name, values in rows} == literals


def test_members_that_only_the_blocking_session_has() -> None:
    shown = {one.removesuffix("()") for one in first_column(section("hopring.sync"))}

    assert shown == SYNC_ONLY | {"timeout_seconds"}
    assert members(sync.Session) - members(hopring.Session) == SYNC_ONLY
