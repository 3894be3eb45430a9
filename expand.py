"""Writes values and dataclasses out as plain classes, for mypyc: only of those does it make native classes.

Interpreted, a frozen msgspec struct is the quickest value there is, and a dataclass is the shortest to write.
To mypyc the first is a stranger, whose every attribute is looked up by name, and the second has an `__init__`
that Python made at run time. So before it compiles, each such class gets the `__init__` that its fields say,
and a `Value` is one of `hopring.native`. What cannot be written out so plainly stays as it is.

Nothing but classes changes, and nothing that a caller sees but that compiled values can be written to; the type
checker, which reads the sources, does not let them.
"""

import ast

VALUE = "from hopring.value import Value"
IDS = "hopring.ids"
NEW_TYPES = frozenset({"DaemonId", "SiteId", "Incarnation", "Generation", "SiteMask", "GroupName"})
NATIVE = "from typing import ClassVar as _ClassVar, Literal as _Literal; from hopring.native import Value"


class Unclear(Exception):
    """A class whose `__init__` is not to be read off its fields."""


class Field:
    """A field of a class: what it is called, of which type it is and what it is if nobody says."""

    def __init__(self, source: str, node: ast.AnnAssign) -> None:
        if not isinstance(node.target, ast.Name):
            raise Unclear("no plain field")
        self.name = node.target.id
        self.type = text_of(source, node.annotation)
        if any(word in self.type for word in ("InitVar", "KW_ONLY")):
            raise Unclear("fields that are none")
        self.default = self.factory = ""
        self.given = True  # To `__init__`; otherwise the class sets it later.
        if isinstance(node.value, ast.Call) and text_of(source, node.value.func) == "field":
            self._read_field(source, node.value)
        elif node.value is not None:
            self.default = text_of(source, node.value)

    def _read_field(self, source: str, call: ast.Call) -> None:
        given = {word.arg: word.value for word in call.keywords}
        self.given = "init" not in given or text_of(source, given.pop("init")) != "False"
        if not given and not self.given:
            return
        if call.args or len(given) != 1 or not {"default", "default_factory"} & set(given):
            raise Unclear("a field with more than a default")
        (kind, value) = given.popitem()
        if kind == "default":
            self.default = text_of(source, value)
        elif "None" in self.type:
            raise Unclear("nothing would be taken for not said")
        else:
            self.factory = text_of(source, value)

    @property
    def parameter(self) -> str:
        """As `__init__` takes it."""
        if self.factory:
            return f"{self.name}: {self.type} | None = None"
        return f"{self.name}: {self.type}" + (f" = ({self.default})" if self.default else "")

    @property
    def statement(self) -> str:
        """As `__init__` keeps it."""
        if not self.given:
            value = f"({self.factory})()" if self.factory else self.default
            return f"self.{self.name} = {value}" if value else ""
        if self.factory:
            return f"self.{self.name} = ({self.factory})() if {self.name} is None else {self.name}"
        return f"self.{self.name} = {self.name}"


def expanded(source: str) -> str:
    """A module with its values and dataclasses written out."""
    edits: list[tuple[int, int, str]] = []
    starts = _line_starts(source)
    tree = ast.parse(source)
    edits += _casts(starts, tree)
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            try:
                edits += _expand(source, starts, node)
            except Unclear:
                continue
    for begin, end, text in sorted(edits, reverse=True):
        source = source[:begin] + text + source[end:]
    return source.replace(VALUE, NATIVE)


def _casts(starts: list[int], tree: ast.Module) -> list[tuple[int, int, str]]:
    """Calls of new types, as `SiteId(3)`, as casts: to mypyc those are nothing, and the calls are calls."""
    imports = [one for one in tree.body if isinstance(one, ast.ImportFrom) and one.module == IDS]
    names = {alias.name for one in imports for alias in one.names} & NEW_TYPES
    # In a formatted text places are not told.
    texts = [one for one in ast.walk(tree) if isinstance(one, ast.JoinedStr)]
    skipped = {id(one) for text in texts for one in ast.walk(text)}
    edits = []
    for call in ast.walk(tree):
        if id(call) in skipped:
            continue
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in names:
            begin, end = _place(starts, call.func), _place(starts, call.args[0])
            edits.append((begin, end, f"_cast({call.func.id}, "))
    if edits:
        end = _place(starts, imports[-1], end=True)
        edits.append((end, end, "; from typing import cast as _cast"))
    return edits


def _expand(source: str, starts: list[int], node: ast.ClassDef) -> list[tuple[int, int, str]]:
    """What changes in one class."""
    is_value = [text_of(source, base) for base in node.bases] == ["Value"]
    decorator = next((one for one in node.decorator_list if is_dataclass(source, one)), None)
    if not is_value and (decorator is None or node.bases or node.keywords):
        return []
    nodes = field_nodes(source, node)
    fields = [Field(source, one) for one in nodes]
    methods = {one.name for one in node.body if isinstance(one, ast.FunctionDef)}
    if "__init__" in methods:
        return []
    # What is not given stays a field that is not: `replace` goes by that.
    edits = [
        (_place(starts, one.annotation, end=True), _place(starts, one, end=True), "")
        for one, field in zip(nodes, fields, strict=True)
        if one.value is not None and field.given
    ]
    last = _place(starts, node.body[-1], end=True)
    line_end = source.find("\n", last)
    edits.append((line_end, line_end, _init(fields, "__post_init__" in methods, is_value)))
    if is_value:
        edits.append(
            (_place(starts, node.bases[0], end=True), source.index(":\n", _head_end(starts, node)), ")")
        )
    elif decorator is not None:
        begin, end = _place(starts, decorator), _place(starts, decorator, end=True)
        edits.append((begin, end, _decorator(source, decorator)))
    return edits


def _init(fields: list[Field], post: bool, is_value: bool) -> str:
    lines = []
    if is_value:
        names = "".join(f'"{field.name}", ' for field in fields)
        kinds = "".join(f'_Literal["{field.name}"], ' for field in fields) or "()"
        lines.append(f"    __match_args__: _ClassVar[tuple[{kinds}]] = ({names})")
    if fields or post:
        keyword = "".join(f", {field.parameter}" for field in fields if field.given)
        lines.append(f"    def __init__(self{keyword}) -> None:")
        lines += [f"        {field.statement}" for field in fields if field.statement]
        lines += ["        self.__post_init__()"] * post
    return "".join(f"\n{line}" for line in lines)


def _decorator(source: str, node: ast.expr) -> str:
    words = (
        {word.arg: text_of(source, word.value) for word in node.keywords} if isinstance(node, ast.Call) else {}
    )
    if "kw_only" in words:
        raise Unclear("fields by name only")
    if words.pop("frozen", "") and words.get("eq") != "False":
        words["unsafe_hash"] = "True"
    words["init"] = "False"
    return f"dataclass({', '.join(f'{name}={value}' for name, value in words.items())})"


def field_nodes(source: str, node: ast.ClassDef) -> list[ast.AnnAssign]:
    """Where a class says its fields, in their order."""
    return [
        one for one in node.body if isinstance(one, ast.AnnAssign) and "ClassVar" not in text_of(source, one)
    ]


def is_dataclass(source: str, node: ast.expr) -> bool:
    """Whether that decorator makes one."""
    return text_of(source, node.func if isinstance(node, ast.Call) else node) == "dataclass"


def _head_end(starts: list[int], node: ast.ClassDef) -> int:
    ends = [one.value for one in node.keywords] or node.bases
    return _place(starts, ends[-1], end=True)


def text_of(source: str, node: ast.AST) -> str:
    """What stands there in the source."""
    return ast.get_source_segment(source, node) or ""


def _line_starts(source: str) -> list[int]:
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def _place(starts: list[int], node: ast.expr | ast.stmt | None, *, end: bool = False) -> int:
    assert node is not None, "there is one"
    line, column = (node.end_lineno, node.end_col_offset) if end else (node.lineno, node.col_offset)
    assert line is not None, "parsed from text"
    assert column is not None, "parsed from text"
    return starts[line - 1] + column
