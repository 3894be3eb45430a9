"""Writes a package out as mypyc is to read it: classes, questions about kinds, and class patterns."""

import ast
from functools import cache, partial
from pathlib import Path

from expand import Field, Unclear, expanded, field_nodes, is_dataclass, text_of
from expand_kinds import with_kinds_written_out
from expand_match import with_matches_written_out

Modules = dict[str, str]
"""The sources of a package by the names of its modules."""
ROOTS = frozenset({"Value", "Struct", "msgspec.Struct", "NamedTuple"})
"""What says that the annotations of a class are its fields."""


def write_expanded(files: list[Path], package: Path, target: Path) -> list[Path]:
    """All modules of the package below that directory, these expanded; what has not changed is not touched."""
    chosen = set(files)
    sources = {file: file.read_text() for file in sorted(package.rglob("*.py"))}
    modules = {_module_name(file, package): text for file, text in sources.items()}
    written = {}
    for file, source in sources.items():
        new = target / package.name / file.relative_to(package)
        new.parent.mkdir(parents=True, exist_ok=True)
        text = expanded_all(modules, _module_name(file, package)) if file in chosen else source
        if not new.exists() or new.read_text() != text:
            new.write_text(text)
        written[file] = new
    for stale in set((target / package.name).rglob("*.py")) - set(written.values()):
        stale.unlink()
    return [written[file] for file in files]


def expanded_all(modules: Modules, module: str) -> str:
    """One module with all written out that mypyc compiles badly."""
    source = with_kinds_written_out(expanded(modules[module]))
    return with_matches_written_out(source, partial(fields_of, modules, module))


def fields_of(modules: Modules, module: str, name: str) -> tuple[str, ...]:
    """The fields of a class as patterns count them, wherever in the package the module has it from."""
    return _fields(modules, *_class_of(modules, module, name))


def _class_of(modules: Modules, module: str, name: str) -> tuple[str, ast.ClassDef]:
    """The module that defines what another one calls so, and how."""
    head, _, rest = name.partition(".")
    found = [
        place
        for node in (_parsed(modules[module]).body if module in modules else [])
        if (place := _place_of(modules, node, head, rest)) is not None
    ]
    if len(found) != 1:
        raise Unclear("not the one class of that name")
    (place,) = found
    return (module, place) if isinstance(place, ast.ClassDef) else _class_of(modules, *place)


def _place_of(modules: Modules, node: ast.stmt, head: str, rest: str) -> ast.ClassDef | tuple[str, str] | None:
    """The class if this statement defines it, or the module and the name that it is imported from."""
    if isinstance(node, ast.ClassDef):
        return node if node.name == head and not rest else None
    if isinstance(node, ast.Import):
        return next(((alias.name, rest) for alias in node.names if alias.asname == head), None)
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        for alias in node.names:
            if head == (alias.asname or alias.name):
                module = f"{node.module}.{alias.name}"
                return (module, rest) if module in modules else (node.module, f"{alias.name}.{rest}".strip("."))
    return None


def _fields(modules: Modules, module: str, node: ast.ClassDef) -> tuple[str, ...]:
    """The fields of a struct, of a dataclass or of a named tuple, if each can be told by its place."""
    source = modules[module]
    decorators = [one for one in node.decorator_list if is_dataclass(source, one)]
    if node.bases and decorators:
        raise Unclear("a dataclass with a base")
    calls = [one for one in decorators if isinstance(one, ast.Call)]
    words = {word.arg for word in (*node.keywords, *(word for call in calls for word in call.keywords))}
    if {"kw_only", "match_args"} & words or any(_is_said(one) for one in node.body):
        raise Unclear("patterns that do not go by the fields")
    own = [Field(source, one).name for one in field_nodes(source, node)]
    names = own if decorators else [*_inherited(modules, module, node), *own]
    if len(set(names)) < len(names):
        raise Unclear("a field said twice")
    return tuple(names)


def _inherited(modules: Modules, module: str, node: ast.ClassDef) -> tuple[str, ...]:
    """The fields that a struct has from the one that it derives from; a named tuple has none."""
    (base, *others) = [text_of(modules[module], base) for base in node.bases] or [""]
    if others or node.decorator_list:
        raise Unclear("a class of another make")
    if base in ROOTS:
        return ()
    where, parent = _class_of(modules, module, base)
    if parent.decorator_list or [text_of(modules[where], one) for one in parent.bases] == ["NamedTuple"]:
        raise Unclear("its fields are not those that it says")
    return _fields(modules, where, parent)


def _is_said(node: ast.stmt) -> bool:
    """Whether a class says here itself what its patterns go by."""
    targets = (
        node.targets
        if isinstance(node, ast.Assign)
        else [node.target]
        if isinstance(node, ast.AnnAssign)
        else []
    )
    return any(isinstance(one, ast.Name) and one.id == "__match_args__" for one in targets)


def _module_name(file: Path, package: Path) -> str:
    parts = file.relative_to(package).with_suffix("").parts
    return ".".join((package.name, *(parts[:-1] if parts[-1] == "__init__" else parts)))


@cache
def _parsed(source: str) -> ast.Module:
    return ast.parse(source)
