"""Writes class patterns out as `isinstance`, for mypyc: to it a `match` is a riddle for Python to solve.

A class pattern is compiled to a call of `isinstance` as Python has it, and what it captures is looked up by
name. The same question in an `if` is a comparison of pointers if the class is of a compiled module, and a field
is at a fixed place. So a `match` of nothing but class patterns becomes the `if` and `elif` that it means: the
same questions in the same order, then the captures, then the guard. The cases keep their depth.

Where a name is captured in several cases, each gets its own, since the type checker lets it be of another type
in each. A subject that is not a name is kept in one. What is not that plain stays as it is.
"""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from expand import Unclear
from expand_kinds import Edit, Function, Text, bare_names, bound_in, dotted, functions_in, tuple_of

_CASE = re.compile(rb"^[ \t]*case\b", re.MULTILINE)
_COLON = re.compile(rb"[\s)]*:(?=[ \t]*(#[^\n]*)?\n)")

FieldsOf = Callable[[str], tuple[str, ...]]
"""The fields of the class of that name in the order of their patterns, or Unclear."""


@dataclass(slots=True)
class Question:
    """What a pattern asks of its subject, and what it captures: names, and where they are found."""

    asks: list[str] = field(default_factory=list)
    captures: dict[str, str] = field(default_factory=dict)


def with_matches_written_out(source: str, fields_of: FieldsOf) -> str:
    """A module with the class patterns of its functions written out, one `match` after the other."""
    while True:
        changed = _with_one_written_out(source, fields_of)
        if changed is None:
            return source
        source = changed


def _with_one_written_out(source: str, fields_of: FieldsOf) -> str | None:
    """The module with its first plain `match` written out; nothing if there is none."""
    text = Text(source)
    for function in functions_in(ast.parse(source)):
        for node in ast.walk(function):
            if isinstance(node, ast.Match):
                try:
                    return text.edited(_edits(text, function, node, fields_of))
                except Unclear:
                    continue
    return None


def _edits(text: Text, function: Function, node: ast.Match, fields_of: FieldsOf) -> list[Edit]:
    """What changes for one `match`."""
    subject, kept = _subject(text, node)
    bound = bound_in(function)
    questions = [_question(subject, case.pattern, fields_of) for case in node.cases]
    for kind in (one.cls for one in ast.walk(node) if isinstance(one, ast.MatchClass)):
        if dotted(kind).split(".")[0] in bound:
            raise Unclear("a class that is a variable")
    if not questions[0].asks and node.cases[0].guard is None:
        raise Unclear("nothing is asked")
    begin, end = text.begin(node), _colon_after(text, text.end(node.subject))
    indent = _indent(text, begin)
    edits = [(begin, end, kept)]
    taken: set[str] = set()
    for case, question in zip(node.cases, questions, strict=True):
        names = _new_names(text, function, case, list(question.captures), taken)
        taken.update(names.values())
        edits += _renamings(text, case, names)
        captures = {names.get(name, name): place for name, place in question.captures.items()}
        word = f"{indent}{'if' if case is node.cases[0] else 'elif'} "
        edits += _head(text, end, case, word, Question(question.asks, captures))
        end = text.end(case.body[-1])
    return edits


def _subject(text: Text, node: ast.Match) -> tuple[str, str]:
    """What the subject is called, and the statement that makes it so, which a name does not need."""
    subject = node.subject
    if isinstance(subject, ast.Name):
        changed = {name for case in node.cases for name in bound_in(case.pattern)}
        changed |= {name for case in node.cases if case.guard for name in bound_in(case.guard)}
        if subject.id in changed:
            raise Unclear("a subject that changes while it is matched")
        return subject.id, ""
    if not isinstance(subject, (ast.Attribute, ast.Subscript, ast.Call)):
        raise Unclear("a subject of several parts")
    meant = ast.dump(subject)
    if any(
        ast.dump(one) == meant for case in node.cases for one in ast.walk(case) if isinstance(one, ast.expr)
    ):
        raise Unclear("a subject of whose type the cases may know more")
    name = _unused(text, "matched", set())
    return name, f"{name} = ({text.of(subject)})"


def _question(subject: str, pattern: ast.pattern, fields_of: FieldsOf) -> Question:
    """What a whole case asks; nothing if it takes anything."""
    match pattern:
        case ast.MatchAs(None, None):
            return Question()
        case ast.MatchOr(patterns):
            if any(bound_in(one) or not isinstance(one, ast.MatchClass) or one.patterns for one in patterns):
                raise Unclear("alternatives that differ in more than their class")
            kinds = [_kind(one) for one in patterns]
            return Question([f"isinstance({subject}, {tuple_of(kinds)})"])
    kind = _kind(pattern)
    question = Question([f"isinstance({subject}, {kind})"])
    parts = pattern.patterns if isinstance(pattern, ast.MatchClass) else []
    if parts:
        fields = fields_of(kind)
        if len(parts) > len(fields):
            raise Unclear("more patterns than fields")
        for name, part in zip(fields, parts, strict=False):
            _ask_part(question, f"{subject}.{name}", part)
    return question


def _ask_part(question: Question, place: str, part: ast.pattern) -> None:
    """Adds what is asked of one field: nothing, or of which class it is."""
    match part:
        case ast.MatchAs(inner, name):
            if name is not None:
                question.captures[name] = place
        case _:
            inner = part
    if inner is not None:
        if not isinstance(inner, ast.MatchClass) or inner.patterns:
            raise Unclear("more than the class of a field")
        question.asks.append(f"isinstance({place}, {_kind(inner)})")


def _kind(pattern: ast.pattern) -> str:
    """The name of the class in a class pattern."""
    if not isinstance(pattern, ast.MatchClass) or pattern.kwd_attrs or not dotted(pattern.cls):
        raise Unclear("no plain class pattern")
    return dotted(pattern.cls)


def _head(text: Text, after: int, case: ast.match_case, word: str, question: Question) -> list[Edit]:
    """What changes between the end of what came before a case and its body; the guard stays where it is."""
    end = text.end(case.guard or case.pattern)
    colon = _colon_after(text, end)
    begin = max(found.start() for found in _CASE.finditer(text.octets, after, text.begin(case.pattern)))
    asks = list(question.asks)
    lines = [f"{name} = {place}" for name, place in question.captures.items()]
    if case.guard is None:
        if not asks:
            return [(begin, colon, word.replace("elif ", "else:"))]
        return [(begin, colon, f"{word}{' and '.join(asks)}:" + _lines(text, case, lines))]
    if lines:
        # Before the guard, for it may ask about them; a tuple of which only the last counts makes no object.
        asks.append(f"({', '.join(lines).replace(' = ', ' := ')}, True)[{len(lines)}]")
    return [(begin, text.begin(case.guard), word + " and ".join([*asks, "("])), (end, colon, "):")]


def _lines(text: Text, case: ast.match_case, lines: list[str]) -> str:
    """Statements to stand before the body of a case."""
    indent = _indent(text, text.begin(case.body[0]))
    return "".join(f"\n{indent}{line}" for line in lines)


def _new_names(
    text: Text, function: Function, case: ast.match_case, captures: list[str], taken: set[str]
) -> dict[str, str]:
    """What to call those captures of a case that the function captures elsewhere too."""
    names: dict[str, str] = {}
    for name in captures:
        others = [one for one in _cases_with(function, name) if one is not case]
        if others or _captured(function).count(name) > 1:
            _refuse_if_seen_elsewhere(function, case, others, name)
            names[name] = _unused(text, name, taken | set(names.values()))
    return names


def _refuse_if_seen_elsewhere(
    function: Function, case: ast.match_case, others: list[ast.match_case], name: str
) -> None:
    """A capture can have another name only if each case that uses it has captured it itself."""
    if any(
        one is other
        for whole in (case, *others)
        for one in ast.walk(whole)
        for other in (case, *others)
        if other is not whole
    ):
        raise Unclear("a capture within another one of its name")
    if any(name in bare_names(one) for part in _inside(case) for one in ast.walk(part)):
        raise Unclear("a name that is bound otherwise")
    own = {id(one) for whole in (case, *others) for part in _inside(whole) for one in ast.walk(part)}
    if any(isinstance(one, ast.Name) and one.id == name and id(one) not in own for one in ast.walk(function)):
        raise Unclear("a capture that is used elsewhere")


def _renamings(text: Text, case: ast.match_case, names: dict[str, str]) -> list[Edit]:
    """The captures by their new names, wherever the case uses them."""
    used = [
        one for part in _inside(case) for one in ast.walk(part) if isinstance(one, ast.Name) and one.id in names
    ]
    if any(text.of(one) != one.id for one in used):
        raise Unclear("a name whose place is not known")  # In f-strings, before Python 3.12.
    return [(text.begin(one), text.end(one), names[one.id]) for one in used]


def _inside(case: ast.match_case) -> Iterator[ast.expr | ast.stmt]:
    """All of a case but its pattern."""
    if case.guard is not None:
        yield case.guard
    yield from case.body


def _cases_with(function: Function, name: str) -> list[ast.match_case]:
    """All cases of a function that capture that name."""
    cases = [one for one in ast.walk(function) if isinstance(one, ast.match_case)]
    return [one for one in cases if name in _captured(one.pattern)]


def _captured(node: ast.AST) -> list[str]:
    """Every capture, as often as there is one."""
    patterns = (ast.MatchAs, ast.MatchStar, ast.MatchMapping)
    return [name for one in ast.walk(node) if isinstance(one, patterns) for name in bare_names(one)]


def _unused(text: Text, name: str, taken: set[str]) -> str:
    """A name like this one that nothing in the module has."""
    number = 2
    while f"{name}_{number}" in taken or f"{name}_{number}".encode() in text.octets:
        number += 1
    return f"{name}_{number}"


def _colon_after(text: Text, place: int) -> int:
    """Where the line ends that heads a block, without a comment."""
    colon = _COLON.match(text.octets, place)
    if colon is None:
        raise Unclear("no plain head")
    return text.octets.index(b":", place) + 1


def _indent(text: Text, place: int) -> str:
    """What stands before the first thing in its line."""
    line = text.octets.rfind(b"\n", 0, place) + 1
    return text.octets[line:place].decode()
