"""Compiles the typed hot modules with mypyc: `make compile` for a source tree, and setup.py for a wheel.

mypyc reads the files in `src` as they are, so tracebacks of compiled code name their lines. The compiled
modules go to a directory of their own, never beside their sources; `hopring/compiled.py` says when they are
used. Without mypy or a C compiler this says so in one line, and hopring runs interpreted.
"""

import ast
import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "hopring"
os.environ["HOPRING_PURE"] = "1"  # The compiler itself runs on sources, not on compiled modules.
sys.path.insert(0, str(SOURCE.parent))

from hopring import compiled  # noqa: E402

HOT = (
    *(
        "wire/*.py",
        "links/*.py",
        "links/*/*.py",
        "routing/*.py",
        "ordering/*.py",
        "sealing/*.py",
        "stack.py",
        "stack_events.py",
        "value.py",
    ),
    "services.py",
    *("engine.py", "membership/*.py"),
    *("wire/rmp/*.py", "rmp/*.py", "rmp/*/*.py"),
    *(f"sim/{name}.py" for name in ("engine", "path", "network", "driver", "cluster", "client_cluster")),
    *("check/history.py", "check/judge.py", "check/properties/*.py"),
    "groups/*.py",
    "session/*.py",
    *(
        f"client/{name}.py"
        for name in ("connection", "core", "fast_path", "outgoing", "receiving/runs", "receiving/stream")
    ),
    *(f"blocks/{name}.py" for name in ("call_header", "caller", "exchange", "serving")),
    "spread/*.py",
    *(
        f"daemon/{name}.py"
        for name in (
            "loop/event_loop",
            "loop/sleeping",
            "net/udp",
            "net/datagrams",
            "net/peer_sockets",
            "net/shaper",
            "engines/host",
            "engines/membership_host",
            "clients/server",
            "clients/connection",
        )
    ),
)
# Messages or options, with hardly any work.
LEFT_OUT = frozenset(
    {
        *("membership/messages.py",),
        "routing/weights.py",
        *("groups/messages.py", "groups/names.py"),
        *("session/protocol.py", "session/dialect.py"),
        *("spread/bits.py",),
        *("check/properties/property.py", "check/properties/sql.py"),
        "ordering/destinations.py",  # A base for classes that are not compiled.
    }
)


TRIED = "1"
"""The level of optimization here: it saves a quarter of the time, and simulations take 1 or 2 % longer."""
SHIPPED = "2"
"""The level in wheels."""


class CannotCompile(Exception):
    """Something that compilation needs is not on this machine."""


def hot_files() -> list[Path]:
    """The source files to compile."""
    files = [file for pattern in HOT for file in sorted(SOURCE.glob(pattern))]
    names = [file.relative_to(SOURCE).as_posix() for file in files]
    return [SOURCE / name for name in names if not name.endswith("__init__.py") and name not in LEFT_OUT]


def sources_of(files: list[Path]) -> list[Path]:
    """These files and all modules of hopring that they import, because constants are compiled in."""
    found: set[Path] = set()
    waiting = list(files)
    while waiting:
        file = waiting.pop()
        if file not in found:
            found.add(file)
            waiting.extend(_imports_of(file))
    return sorted(found)


def _imports_of(file: Path) -> list[Path]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update([node.module, *(f"{node.module}.{alias.name}" for alias in node.names)])
    paths = [SOURCE.parent / name.replace(".", "/") for name in names if name.split(".")[0] == "hopring"]
    files = [file for path in paths for file in (path.with_suffix(".py"), path / "__init__.py")]
    return [file for file in files if file.is_file()]


def compile_core(directory: Path, scratch: Path, level: str = TRIED) -> int:
    """Compiles into that directory; returns the number of modules."""
    compiler = _compiler()
    files = hot_files()
    # Hashed before they are read: an edit meanwhile gives a record that does not match, and no wrong code.
    digests = {file.relative_to(SOURCE).as_posix(): compiled.digest_of(file) for file in sources_of(files)}
    extensions = _translate(files, scratch, level)
    jobs = [(extension, source) for extension in extensions for source in extension.sources]
    # All modules share the headers, and this file decides how to compile.
    shared_s = max(file.stat().st_mtime for file in [*scratch.glob("c/*.h"), Path(__file__)])
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = dict(pool.map(lambda job: _object(compiler, job[0], job[1], scratch, shared_s), jobs))
    return _write(directory, compiler, extensions, objects, digests)


def _compiler() -> Any:
    """The command of a C compiler that finds the headers of Python."""
    try:
        import mypyc.build  # noqa: F401, PLC0415
        from setuptools._distutils.ccompiler import new_compiler  # noqa: PLC0415
        from setuptools._distutils.sysconfig import customize_compiler  # noqa: PLC0415
    except ImportError as error:
        raise CannotCompile(f"{error.name} is not installed") from None
    compiler: Any = new_compiler()
    customize_compiler(compiler)
    program = shutil.which(compiler.compiler[0])
    if program is None:
        raise CannotCompile(f"there is no C compiler ({compiler.compiler[0]})")
    with tempfile.TemporaryDirectory() as scratch:
        trial = Path(scratch) / "trial.c"
        trial.write_text("#include <Python.h>\n")
        command = [program, f"-I{sysconfig.get_path('include')}", "-fsyntax-only", str(trial)]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            raise CannotCompile("the C compiler does not find Python.h")
    return compiler


def _translate(files: list[Path], scratch: Path, level: str) -> list[Any]:
    """Translates Python to C with mypyc."""
    from mypyc.build import mypycify  # noqa: PLC0415

    _refuse_structs(files)
    os.environ["MYPYPATH"] = str(SOURCE.parent)
    options = ["--strict", "--explicit-package-bases", "--namespace-packages", f"--config-file={os.devnull}"]
    names = [str(file.relative_to(ROOT)) for file in files]
    arguments = [*options, f"--cache-dir={scratch / 'mypy'}", *names]
    said = io.StringIO()
    try:
        # From the root, so that tracebacks name files as in a checkout.
        with contextlib.chdir(ROOT), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            extensions: list[Any] = mypycify(
                arguments,
                opt_level=level,
                debug_level="0",
                multi_file=True,
                group_name="hopring",
                target_dir=str(scratch / "c"),
            )
    except SystemExit:  # mypy and mypyc exit like this when they find a mistake in the source.
        print(said.getvalue(), file=sys.stderr)
        raise
    return extensions


def _refuse_structs(files: list[Path]) -> None:
    """mypyc drops the options of a `msgspec.Struct` in a compiled module, and takes `==` of two for `is`."""
    wrong = [
        f"{file.relative_to(ROOT)}:{node.lineno}: {node.name} is a struct; use `Value`"
        for file in files
        for node in ast.walk(ast.parse(file.read_bytes()))
        if isinstance(node, ast.ClassDef)
        if any(ast.unparse(base).split(".")[-1] == "Struct" for base in node.bases)
    ]
    if wrong:
        sys.exit("\n".join(wrong))


def _object(compiler: Any, extension: Any, source: str, scratch: Path, shared_s: float) -> tuple[str, str]:
    """Compiles C to an object file, unless it exists and is newer than its inputs."""
    (target,) = compiler.object_filenames([source], strip_dir=False, output_dir=str(scratch / "o"))
    file = Path(target)
    if not file.exists() or file.stat().st_mtime < max(Path(source).stat().st_mtime, shared_s):
        compiler.compile(
            [source],
            output_dir=str(scratch / "o"),
            include_dirs=[sysconfig.get_path("include"), *extension.include_dirs],
            macros=extension.define_macros,
            extra_postargs=[*extension.extra_compile_args, "-fvisibility=hidden", "-w"],
        )
    return source, target


def _write(
    directory: Path, compiler: Any, extensions: list[Any], objects: dict[str, str], digests: dict[str, str]
) -> int:
    """Writes the extensions first and the record last: without a record none is used."""
    shutil.rmtree(directory, ignore_errors=True)
    for extension in extensions:
        file = compiled.extension_file(directory, extension.name)
        file.parent.mkdir(parents=True, exist_ok=True)
        compiler.link_shared_object([objects[source] for source in extension.sources], str(file))
    modules = [extension.name for extension in extensions if extension.name != compiled.SHARED]
    record = {"modules": modules, "sources": digests}
    (directory / compiled.RECORD).write_text(json.dumps(record, indent=1) + "\n")
    return len(modules)


def main() -> None:
    """Compiles this source tree, unless nothing has changed."""
    os.chdir(ROOT)
    directory = compiled.build_directory(ROOT)
    if compiled.modules_of(directory, SOURCE) and _newer_than_this(directory / compiled.RECORD):
        return
    began_s = time.monotonic()
    try:
        modules = compile_core(directory, ROOT / "build" / "mypyc" / directory.name)
    except CannotCompile as reason:
        print(f"hopring runs interpreted, which is slower and otherwise the same: {reason}")
        return
    print(f"compiled {modules} modules in {time.monotonic() - began_s:.0f} s")


def _newer_than_this(file: Path) -> bool:
    return file.stat().st_mtime > Path(__file__).stat().st_mtime


if __name__ == "__main__":
    main()
