"""Compiled modules in place of interpreted ones, but only if they were built from the very same sources.

`make compile` and the build of a wheel leave a directory of extension modules with a record: which modules are
in it, and the digest of every source file that had a part in them. If all digests are right, imports of these
modules find the extensions. If one is wrong, if the environment variable HOPRING_PURE says so, or if there is
no such directory, nothing happens, and the sources run as they are. So an extension never shadows a source file
that was edited, and there is never a mixture of the two.
"""

import json
import os
import sys
from collections.abc import Sequence
from hashlib import sha256
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr as mypyc_attr  # noqa: PLC0414  # Exported.
else:

    def mypyc_attr(**_attributes: Any) -> Any:
        """Attributes of a class for the compiler; this module is not compiled, and here they mean nothing."""
        return lambda one: one


PACKAGE = Path(__file__).parent
RECORD = "record.json"
SHARED = "hopring__mypyc"  # The module with the code of all modules; the others only load their part of it.


class Finder:
    """Finds the modules of a record, and leaves all others to the finders after it."""

    def __init__(self, directory: Path, modules: Sequence[str]) -> None:
        self.directory = directory
        self.modules = frozenset([*modules, SHARED])

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Answers the import system: the spec of a compiled module, or None."""
        if name not in self.modules:
            return None
        file = str(extension_file(self.directory, name))
        return spec_from_file_location(name, file, loader=ExtensionFileLoader(name, file))


def active() -> bool:
    """Whether this process runs on the compiled modules."""
    return any(isinstance(finder, Finder) for finder in sys.meta_path)


def directories() -> list[Path]:
    """Where compiled modules may lie: inside an installed package, or in `build` beside a source tree."""
    inside = [PACKAGE / "_compiled"]
    return [*inside, build_directory(PACKAGE.parent.parent)] if PACKAGE.parent.name == "src" else inside


def build_directory(root: Path) -> Path:
    """Where a source tree keeps them, by version of Python."""
    return root / "build" / "compiled" / str(sys.implementation.cache_tag)


def extension_file(directory: Path, module: str) -> Path:
    """The file of a compiled module."""
    return directory / (module.replace(".", "/") + EXTENSION_SUFFIXES[0])


def digest_of(file: Path) -> str:
    """The digest of a source file, as the record stores it."""
    return sha256(file.read_bytes()).hexdigest()


def modules_of(directory: Path, package: Path = PACKAGE) -> list[str]:
    """The modules in that directory, or none if a source file has changed since they were built."""
    try:
        record = json.loads((directory / RECORD).read_bytes())
        if all(digest_of(package / name) == digest for name, digest in record["sources"].items()):
            return list(record["modules"])
    except (OSError, ValueError, KeyError):
        pass  # No record, half a one, or one of files that are gone: nothing to rely on.
    return []


def install() -> None:
    """Puts the compiled modules in place, if there are any that may be used, before anything is imported."""
    if os.environ.get("HOPRING_PURE", "0") not in {"", "0"} or active():
        return
    for directory in directories():
        modules = modules_of(directory)
        if not modules:
            continue
        finder = Finder(directory, modules)
        sys.meta_path.insert(0, finder)
        try:
            import_module(SHARED)
            return
        except ImportError:  # Built for another machine.
            sys.meta_path.remove(finder)
