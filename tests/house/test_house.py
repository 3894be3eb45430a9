"""Rules for the code base that are worth a test: layers, purity, names, docstrings, sizes."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "hopring"

PURE_PACKAGES = (
    "wire",
    "config",
    "links",
    "routing",
    "ordering",
    "sealing",
    "membership",
    "groups",
    "session",
    "rmp",
    "haul",
    "spread",
    "check",
)
PURE_FILES = (
    *(
        "value.py",
        "ids.py",
        "printable.py",
        "errors.py",
        "services.py",
        "engine.py",
        "stack.py",
        "stack_events.py",
    ),
    "daemon/loop/sleeping.py",
    *("compat/constants.py", "compat/sp_membership.py", "compat/frames.py"),
    *("blocks/call_header.py", "blocks/caller.py", "blocks/serving.py"),
    *("blocks/log/messages.py", "blocks/log/records.py", "blocks/log/events.py", "blocks/log/replica.py"),
    *("blocks/log/book.py", "blocks/log/member.py"),
    *("blocks/work_queue/operations.py", "blocks/work_queue/job_table.py", "blocks/work_queue/claim_clock.py"),
    *("spool/format.py", "spool/decode.py", "spool/encode.py", "spool/record.py"),
)
IMPURE = {
    "asyncio",
    "datetime",
    "logging",
    "multiprocessing",
    "os",
    "queue",
    "random",
    "secrets",
    "select",
    "selectors",
    "signal",
    "socket",
    "subprocess",
    "threading",
    "time",
    "uuid",
}
# Packages in layers, the lowest first; a package imports only from itself and from packages below it.
PACKAGES = (
    *(
        "compiled",
        "value",
        "ids",
        "reason",
        "naming",
        "printable",
        "errors",
        "system",
        "services",
        "wire",
        "config",
        "links",
        "routing",
        "ordering",
        "sealing",
    ),
    *(
        "engine",
        "stack_events",
        "stack",
        "membership",
        "groups",
        "session",
        "rmp",
        "spread",
        "spool",
        "credentials",
        "client",
        "blocks",
        "haul",
        "spooler",
        "compat",
        "check",
        "daemon",
        "peer",
        "local",
        "sim",
        "testing",
        "wide",
        "sync",
        "spark",
        "cli",
        "demo",
        "bench",
    ),
)


def pure_files() -> list[Path]:
    packages = [path for package in PURE_PACKAGES for path in sorted((SOURCE / package).glob("**/*.py"))]
    return packages + [SOURCE / name for name in PURE_FILES if (SOURCE / name).exists()]


def imports_of(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


@pytest.mark.parametrize("path", pure_files(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_pure_package_has_no_clock_socket_thread_logger_or_random_generator(path: Path) -> None:
    roots = {name.split(".")[0] for name in imports_of(path)}

    assert not roots & IMPURE


@pytest.mark.parametrize("path", sorted(SOURCE.glob("**/*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_downwards(path: Path) -> None:
    package = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if package == "__init__":
        return
    ours = {name.split(".")[1] for name in imports_of(path) if name.startswith("hopring.")}

    assert package in PACKAGES, f"{package} has no place in PACKAGES"
    assert all(PACKAGES.index(other) <= PACKAGES.index(package) for other in ours)


ABOVE_ENGINES = ("groups", "session", "spread", "client", "compat", "daemon", "local", "cli", "spark")
DRIVES_AN_ENGINE = ("daemon/engines/membership_host.py", "daemon/net/")
"""The host of the membership, and the sockets that carry its networks."""


@pytest.mark.parametrize("package", ABOVE_ENGINES)
def test_nothing_above_an_engine_imports_its_parts(package: str) -> None:
    paths = {path.relative_to(SOURCE).as_posix(): path for path in sorted((SOURCE / package).glob("**/*.py"))}
    others = [path for name, path in paths.items() if not name.startswith(DRIVES_AN_ENGINE)]
    parts = "hopring.membership", "hopring.stack"

    assert others
    assert not [path for path in others if any(name.startswith(parts) for name in imports_of(path))]


def test_no_build_leftover_shadows_a_source_file() -> None:
    assert not list((ROOT / "src").glob("**/*.so"))


@pytest.mark.parametrize("path", sorted(SOURCE.glob("**/*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_names_with_a_time_or_a_size_carry_their_unit(path: Path) -> None:
    bare = re.compile(r"\b(timeout|delay|interval|duration|deadline)\s*:\s*(int|float)\b")

    assert not bare.search(path.read_text())


def test_a_test_module_that_may_be_skipped_whole_is_not_imported_by_another() -> None:
    """Without its requirement the import stops half-way, and `make check` without Spark would fail."""
    files = sorted((ROOT / "tests").glob("**/*.py"))
    skipped = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in files
        if re.search(r"^(\w+ = )?pytest\.importorskip", path.read_text(), re.MULTILINE)
    }

    assert skipped
    # Files are parsed only if they have the name of one: parsing all takes seconds.
    suspects = [path for path in files if any(name in path.read_text() for name in skipped)]
    assert not [str(path) for path in suspects if imports_of(path) & skipped]


def test_no_test_module_imports_another() -> None:
    """Code that tests share is in a module without tests, with a descriptive name and docstring."""
    files = [
        path
        for path in sorted((ROOT / "tests").glob("**/*.py"))
        if re.search(r"tests\.[\w.]*\btest_|tests\.test_", path.read_text())
    ]
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in files
        for name in imports_of(path)
        if name.startswith("tests.") and name.rpartition(".")[2].startswith("test_")
    ]

    assert wrong == []


@pytest.mark.parametrize(("mark", "variable"), [("netns", "NETNS_IN"), ("spark", "SPARK_IN")])
def test_make_finds_the_tests_with_a_mark_where_it_looks(mark: str, variable: str) -> None:
    named = re.search(rf"^{variable} *:= (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    files = [
        path
        for path in (ROOT / "tests").glob("**/test_*.py")
        if re.search(rf"mark\.{mark}\b", path.read_text())
    ]

    assert named
    places = named[1].split()
    assert {path.relative_to(ROOT).parent.as_posix() for path in files} == set(places)


TWINS = {"Session", "Group", "Cluster", "Peers", "ReplicatedDict", "ReplicatedLog", "WorkQueue"}
"""Public classes that exist twice on purpose: the asyncio and the blocking form of one API."""


def test_no_two_public_classes_have_one_name() -> None:
    statement = re.compile(r"^ *class ([A-Za-z]\w*)[(:]", re.MULTILINE)
    names = [name for path in SOURCE.glob("**/*.py") for name in statement.findall(path.read_text())]

    assert {name for name, count in Counter(names).items() if count > 1} == TWINS


@pytest.mark.parametrize("path", sorted(SOURCE.glob("**/*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_docstring_says_something_and_a_file_is_not_too_long(path: Path) -> None:
    text = path.read_text()
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docs = [ast.get_docstring(node) for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]

    assert [doc for doc in docs if doc and len(doc.split()) < 5] == []
    assert len(text.splitlines()) <= 600


def test_no_flat_package_has_more_than_twenty_modules() -> None:
    flat = Counter(path.parent for path in SOURCE.glob("**/*.py") if path.name != "__init__.py")

    assert {str(package): count for package, count in flat.items() if count > 20} == {}


# What is printed without `say`: text of our own, and formats in which foreign text is escaped.
PLAIN_ECHO = re.compile(
    r"json\.dumps\(|msgspec\.json\.encode\(|as_json_text\(|render_\w+\(|dump_toml\(|'\\n'\.join\(story\(|kind\(.*\.source\(\)"
    r"|(HELP|SAMPLE|picture|'> ')$"
)


@pytest.mark.parametrize(
    "path", sorted((SOURCE / "cli").glob("**/*.py")), ids=lambda path: str(path.relative_to(SOURCE))
)
def test_commands_print_text_of_others_through_one_function(path: Path) -> None:
    if path.name == "terminal.py":
        return
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    echoed = [
        ast.unparse(call.args[0])
        for call in calls
        if ast.unparse(call.func) in ("click.echo", "click.secho", "print") and call.args
    ]
    assert [text for text in echoed if not PLAIN_ECHO.match(text)] == []
