"""Counts files, names and docstrings of the code base, and the files that an extension has to touch.

    python -m tests.house.figures [SOURCE]

For a service these are the files that branch on the service of a message; for a link kind, those that name a
concrete kind; for an engine, those outside the present engine that import its parts.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SERVICES = {"UNRELIABLE", "RELIABLE", "FIFO", "CAUSAL", "AGREED", "SAFE"}
SERVICE_QUERY = re.compile(r"\bservices?\b`?\s*(>=|<=|>|<|=|!=|in\b)\s*\(?\d", re.IGNORECASE)
LINK_KINDS = re.compile(r"hopring\.links\.(hop|tcp)\b")
ENGINE = ("hopring.membership", "hopring.stack")
ENGINE_ROOMS = ("membership", "stack", "ordering", "routing", "links", "wire")
SHORT_WORDS = 5


def trees(source: Path) -> Iterator[tuple[Path, ast.Module]]:
    """Every module with its syntax tree."""
    for path in sorted(source.rglob("*.py")):
        yield path, ast.parse(path.read_text())


def _is_service(node: ast.AST) -> bool:
    """Whether the node names a service; other enumerations have members of these names too."""
    if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") not in {"Service", "services"}:
        return False
    return getattr(node, "id", getattr(node, "attr", "")) in SERVICES


def decides_by_service(tree: ast.Module) -> bool:
    """Whether the module compares services, lists several of them, or queries by their numbers."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare():
                sides = [node.left, *node.comparators]
                named = any("service" in ast.unparse(side).lower() for side in sides)
                if any(_is_service(side) for side in sides) or (
                    named and any(isinstance(side, ast.Constant) and type(side.value) is int for side in sides)
                ):
                    return True
            case ast.MatchValue(value) if _is_service(value):
                return True
            case ast.Tuple() | ast.List() | ast.Set():
                if sum(_is_service(one) for one in node.elts) > 1:
                    return True
            case ast.Dict():
                if sum(_is_service(one) for one in node.keys if one is not None) > 1:
                    return True
            case ast.Constant(str() as text) if SERVICE_QUERY.search(text):
                return True
    return False


def imports_of(tree: ast.Module) -> set[str]:
    """The modules and names that a module imports, with dots."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def names_a_link_kind(tree: ast.Module) -> bool:
    """Whether the module imports a concrete link or asks for the kind of a link."""
    members = [
        node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in {"HOP", "TCP"}
    ]
    kinds = [
        node for node in members if getattr(node.value, "id", "") in {"LinkProtocol", "LinkKind", "Family"}
    ]
    return bool(kinds) or any(LINK_KINDS.match(name) for name in imports_of(tree))


def reads_the_engine(tree: ast.Module) -> bool:
    """Whether the module imports parts of the daemon engine."""
    return any(name.startswith(ENGINE) for name in imports_of(tree))


def short_docstrings(tree: ast.Module) -> int:
    """Counts the docstrings of fewer than five words."""
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docs = [ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, kinds)]
    return sum(1 for doc in docs if doc and len(doc.split()) < SHORT_WORDS)


def figures(source: Path) -> dict[str, int]:
    """All figures, by their description."""
    package = source / "hopring"
    found = list(trees(source))
    inside = [(path.relative_to(package).parts, tree) for path, tree in found if package in path.parents]
    classes = Counter(
        node.name
        for _, tree in found
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    sizes = [len(path.read_text().splitlines()) for path, _ in found]
    flat = Counter(path.parent for path, _ in found if path.name != "__init__.py")
    return {
        "modules": len(found),
        "lines": sum(sizes),
        "modules under 60 lines": sum(1 for size in sizes if size < 60),
        "modules over 600 lines": sum(1 for size in sizes if size > 600),
        "packages with more than 20 modules": sum(1 for count in flat.values() if count > 20),
        "public classes": classes.total(),
        "public class names used twice": sum(1 for count in classes.values() if count > 1),
        "docstrings under five words": sum(short_docstrings(tree) for _, tree in found),
        "files that decide by service": sum(1 for _, tree in inside if decides_by_service(tree)),
        "files that name a link kind": sum(
            1 for parts, tree in inside if parts[0] != "links" and names_a_link_kind(tree)
        ),
        "files outside the engine that import it": sum(
            1 for parts, tree in inside if not parts[0].startswith(ENGINE_ROOMS) and reads_the_engine(tree)
        ),
    }


def main() -> None:
    """Prints the figures of a source directory, by default of this checkout."""
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "src"
    for name, count in figures(source).items():
        print(f"{count:>8,}  {name}")


if __name__ == "__main__":
    main()
