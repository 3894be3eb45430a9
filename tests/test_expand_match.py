"""What mypyc is given in the place of class patterns and of constants that `isinstance` is asked about."""

from typing import Any

import pytest
from expand_kinds import with_kinds_written_out
from expand_package import expanded_all

SHAPES = """
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

@dataclass
class Dot:
    x: int
    y: int = 0

class Line(NamedTuple):
    begin: Dot
    end: Dot

class Word(msgspec.Struct):
    serial: int

class Said(Word):
    text: str

class Wide(Said):
    pass

@dataclass(kw_only=True)
class Named:
    x: int

class Plain:
    pass

class Child(Plain):
    pass
"""

HEAD = """\
import package.shapes as forms
from package import shapes
from package.shapes import Child, Dot, Line, Named, Plain, Said, Wide
from package.shapes import Word as Term

"""

TOLD = """\
def told(shape: object, limit: int = 3) -> object:
    match shape:  # Whatever it is.
        # The plainest first.
        case Dot(x) if x > limit:
            return "far", x
        case Dot(_, y):  # Near.
            if y:
                return "near", y
            return "äh", shape.x
        case shapes.Line(Dot() as begin, end):
            match end:
                case Dot(x, y):
                    return begin.x, x, [y for x in range(2)]
                case _:
                    return end
        case (
            Child()
            | forms.Wide()
        ):
            return "child"
        case Plain() if limit == 4: return "four"
        case Said(serial, text):
            return serial, text
        case _ if limit == 5:
            return "five"
        case _:
            return "other"
"""

MANY = """\
def told(shape: object, limit: int = 3) -> object:
    "Ä"; found = []
    for one in (shape, Dot(limit, 2)):
        match one:
            case Dot(x, y):
                found.append(((lambda: x)(), y))
            case Line(x, y):
                match x:
                    case Dot(begin) | Dot(_, begin):
                        found.append(begin)
            case Term(x) if x != limit or found.append(x):
                found.append("ß"); x = str(x)
                found.append(x)
    return found
"""

MANY_WRITTEN_OUT = """\
def told(shape: object, limit: int = 3) -> object:
    "Ä"; found = []
    for one in (shape, Dot(limit, 2)):
        
        if isinstance(one, Dot):
                x_2 = one.x
                y_2 = one.y
                found.append(((lambda: x_2)(), y_2))
        elif isinstance(one, Line):
                x_3 = one.begin
                y_3 = one.end
                match x_3:
                    case Dot(begin) | Dot(_, begin):
                        found.append(begin)
        elif isinstance(one, Term) and (x_4 := one.serial, True)[1] and (x_4 != limit or found.append(x_4)):
                found.append("ß"); x_4 = str(x_4)
                found.append(x_4)
    return found
"""  # noqa: W293

KEPT = """\
def told(shape: object, limit: int = 3) -> object:
    match [shape, limit][0]:
        case Plain():
            return "plain"
        case Dot(x):
            return x
"""

KEPT_WRITTEN_OUT = """\
def told(shape: object, limit: int = 3) -> object:
    matched_2 = ([shape, limit][0])
    if isinstance(matched_2, Plain):
            return "plain"
    elif isinstance(matched_2, Dot):
            x = matched_2.x
            return x
"""

LEFT_ALONE = {
    "a value": "match shape:\n        case 3:\n            return 1",
    "a field by its name": "match shape:\n        case Dot(x=x):\n            return x",
    "the value of a field": "match shape:\n        case Dot(3):\n            return 3",
    "a class of Python": "match shape:\n        case str(x):\n            return x",
    "a class that has no places": "match shape:\n        case Named(x):\n            return x",
    "too many patterns": "match shape:\n        case Dot(x, y, z):\n            return z",
    "anything": "match shape:\n        case _:\n            return 1",
    "all of it": "match shape:\n        case x:\n            return x",
    "captures that differ": "match shape:\n        case Dot(x) | Line(_, x):\n            return x",
    "a subject captured": "match shape:\n        case Line(shape, x):\n            return shape, x",
    "a subject changed": "match shape:\n        case Dot() if (shape := 3):\n            return shape",
    "a subject known better": "match limit.x:\n        case Dot():\n            return limit.x.y",
    "several subjects": "match shape, limit:\n        case Plain():\n            return 3",
    "a class of its own": "Dot = int\n    match shape:\n        case Dot():\n            return 1",
    "a capture used later": (
        "match shape:\n        case Dot(x):\n            pass\n"
        "        case Term(x):\n            pass\n    return x"
    ),
    "a capture and a parameter": (
        "match shape:\n        case Dot(x):\n            return lambda x: x\n"
        "        case Term(x):\n            return lambda x: x"
    ),
}


def modules(source: str) -> dict[str, str]:
    return {"package": "", "package.shapes": SHAPES, "package.told": HEAD + source}


def written_out(source: str) -> str:
    return expanded_all(modules(source), "package.told").removeprefix(HEAD)


def run(source: str) -> dict[str, Any]:
    """The names of the shapes and of a module that knows them."""
    space: dict[str, Any] = {"__name__": "package.told"}
    exec(SHAPES, space)
    space["Term"] = space["Word"]
    space["shapes"] = space["forms"] = type("shapes", (), space)
    exec(source, space)
    return space


def answers(source: str) -> list[object]:
    space = run(source)
    shapes = [
        *(space["Dot"](1), space["Dot"](1, 2), space["Dot"](7, 2)),
        *(
            space["Line"](space["Dot"](1), space["Dot"](2, 3)),
            space["Line"](space["Dot"](1), 5),
            space["Line"](1, 2),
        ),
        *(space["Term"](3), space["Term"](4), space["Said"](1, "a"), space["Wide"](1, "b")),
        *(space["Plain"](), space["Child"](), 3),
    ]
    return [repr(space["told"](shape, limit)).split(" object at")[0] for shape in shapes for limit in (3, 4, 5)]


@pytest.mark.parametrize("source", [TOLD.replace(' return "four"', '\n            return "four"'), MANY, KEPT])
def test_what_is_written_out_answers_as_the_patterns_do(source: str) -> None:
    changed = written_out(source)

    assert changed != source
    assert answers(changed) == answers(source)
    assert len(set(answers(source))) > 1


@pytest.mark.parametrize(("source", "text"), [(MANY, MANY_WRITTEN_OUT), (KEPT, KEPT_WRITTEN_OUT)])
def test_questions_come_first_and_then_captures_and_the_guard(source: str, text: str) -> None:
    assert written_out(source) == text


def test_a_match_within_a_case_is_written_out_too() -> None:
    source = TOLD.replace(' return "four"', '\n            return "four"')

    assert "match" not in written_out(source)
    assert "    if isinstance(shape, Dot) and (x_2 := shape.x, True)[1] and (x_2 > limit):\n" in written_out(
        source
    )
    assert "    elif isinstance(shape, (Child, forms.Wide)):\n" in written_out(source)
    assert '    elif (limit == 5):\n            return "five"\n    else:\n' in written_out(source)


def test_a_body_in_the_line_of_its_case_keeps_the_match_but_not_the_one_within() -> None:
    assert "    match shape:  # Whatever it is.\n" in written_out(TOLD)
    assert "            if isinstance(end, Dot):\n" in written_out(TOLD)


@pytest.mark.parametrize("body", LEFT_ALONE.values(), ids=LEFT_ALONE.keys())
def test_what_is_not_a_plain_class_pattern_stays_as_it_is(body: str) -> None:
    source = f"def told(shape: object, limit: object) -> object:\n    {body}\n"

    assert written_out(source) == source


def test_a_constant_that_isinstance_is_asked_about_gives_way_to_its_classes() -> None:
    source = (
        "KINDS: Final = (A, b.C)\nONE: Final = (A,)\nMIXED: Final = (A, f())\nOPEN = (A, B)\n"
        "def asks(x: object) -> bool:\n"
        "    return isinstance(x, KINDS) or isinstance(y, ONE) or isinstance(x, A | b.C | D)\n"
        "def others(x: object) -> bool:\n"
        "    return isinstance(x, MIXED) or isinstance(x, OPEN) or isinstance(x, A | None)\n"
    )

    assert with_kinds_written_out(source) == source.replace("x, KINDS", "x, (A, b.C)").replace(
        "y, ONE", "y, (A,)"
    ).replace("x, A | b.C | D", "x, (A, b.C, D)")


@pytest.mark.parametrize("hiding", ["KINDS", "A"])
def test_a_constant_stays_if_a_function_has_something_else_of_its_name(hiding: str) -> None:
    head = f"def asks(x: object, {hiding}: type) -> bool:"
    source = f"KINDS: Final = (A, B)\n{head}\n    return isinstance(x, KINDS)\n"

    assert with_kinds_written_out(source) == source
