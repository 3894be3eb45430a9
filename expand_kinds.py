"""Writes out the kinds that `isinstance` is asked about, for mypyc: only a tuple that stands there is quick.

With classes of compiled modules, `isinstance(x, (A, B))` is two comparisons of pointers. With a constant that
holds that tuple, or with `A | B`, it is a call into Python, which knows nothing of the classes beforehand. So
the constant gives way to what is in it, where nothing of the same name can stand between.
"""

import ast
from collections.abc import Iterator

Edit = tuple[int, int, str]
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Text:
    """A source as octets, which is how its syntax tree counts columns."""

    def __init__(self, source: str) -> None:
        self.octets = source.encode()
        self._starts = [0]
        for line in self.octets.split(b"\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)

    def begin(self, node: ast.expr | ast.stmt | ast.pattern) -> int:
        """Where it begins."""
        return self._starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.stmt | ast.pattern) -> int:
        """Where it ends."""
        assert node.end_lineno is not None, "parsed from text"
        assert node.end_col_offset is not None, "parsed from text"
        return self._starts[node.end_lineno - 1] + node.end_col_offset

    def of(self, node: ast.expr) -> str:
        """What stands there."""
        return self.octets[self.begin(node) : self.end(node)].decode()

    def edited(self, edits: list[Edit]) -> str:
        """The source with some of its stretches replaced; no two of them overlap."""
        octets = self.octets
        for begin, end, text in sorted(edits, reverse=True):
            octets = octets[:begin] + text.encode() + octets[end:]
        return octets.decode()


def with_kinds_written_out(source: str) -> str:
    """A module whose `isinstance` asks about tuples of classes."""
    text = Text(source)
    tree = ast.parse(source)
    hidden = {name for function in functions_in(tree) for name in bound_in(function)}
    constants = {
        name: kinds
        for name, kinds in _constants(tree).items()
        if not hidden & {name, *(kind.split(".")[0] for kind in kinds)}
    }
    return text.edited(
        [
            (text.begin(asked), text.end(asked), tuple_of(kinds))
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance"
            for asked in node.args[1:]
            if (kinds := constants.get(asked.id, []) if isinstance(asked, ast.Name) else _joined(asked))
        ]
    )


def tuple_of(kinds: list[str]) -> str:
    """How to write these as a tuple."""
    return f"({', '.join(kinds)}{',' * (len(kinds) == 1)})"


def dotted(node: ast.expr) -> str:
    """A name, perhaps of something in a module; empty if it is neither."""
    if isinstance(node, ast.Attribute):
        front = dotted(node.value)
        return front and f"{front}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def functions_in(node: ast.AST) -> Iterator[Function]:
    """The functions and methods that are not within another one."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield child
        else:
            yield from functions_in(child)


def bound_in(node: ast.AST) -> set[str]:
    """Every name that something within gets, be it in a function of its own."""
    stored = {
        one.id for one in ast.walk(node) if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load)
    }
    return stored.union(*(bare_names(one) for one in ast.walk(node)))


def bare_names(node: ast.AST) -> list[str]:
    """The names that are said here and have no node: of parameters, captures, imports, functions and so on."""
    match node:
        case ast.arg():
            return [node.arg]
        case ast.alias():
            return [(node.asname or node.name).split(".")[0]]
        case ast.Global() | ast.Nonlocal():
            return list(node.names)
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.ExceptHandler() | ast.MatchAs() | ast.MatchStar():
            return [node.name] if node.name else []
        case ast.MatchMapping():
            return [node.rest] if node.rest else []
    return []


def _constants(tree: ast.Module) -> dict[str, list[str]]:
    """The constants of a module that are tuples of names."""
    found = {}
    for node in tree.body:
        match node:
            case ast.AnnAssign(ast.Name(name), annotation, ast.Tuple(items)) if dotted(annotation) == "Final":
                kinds = [dotted(item) for item in items]
                if all(kinds):
                    found[name] = kinds
    return found


def _joined(node: ast.expr) -> list[str]:
    """The names in `A | B | C`; none if there is anything else."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.BitOr):
        return []
    front, last = _joined(node.left) or [dotted(node.left)], dotted(node.right)
    return [*front, last] if all(front) and last else []
