"""The wheel holds compiled modules if they can be compiled here, and runs interpreted if not.

All else about the package is in pyproject.toml. An editable install never compiles: `make compile` does.
"""

import shutil
import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

sys.path.insert(0, str(Path(__file__).resolve().parent / "tools"))

import compile_core

COMPILED = Path(compile_core.ROOT) / "build" / "wheel"


def compiled_for_wheel() -> bool:
    """Compiles, and says whether that went well; a user without a compiler gets a wheel all the same."""
    if "bdist_wheel" not in sys.argv:
        return False
    try:
        compile_core.compile_core(COMPILED, COMPILED.parent / "mypyc" / "wheel", compile_core.SHIPPED)
    except (compile_core.CannotCompile, SystemExit) as reason:
        print(
            f"hopring will run interpreted, which is slower and otherwise the same: {reason}", file=sys.stderr
        )
        return False
    return True


IS_COMPILED = compiled_for_wheel()


class BuildWithCompiled(build_py):  # type: ignore[misc]  # setuptools has no types.
    """The package, and inside it the compiled modules."""

    def run(self) -> None:
        """Copies all files of the package to where the wheel is made from."""
        super().run()
        inside = Path(self.build_lib) / "hopring" / "_compiled"
        shutil.rmtree(inside, ignore_errors=True)  # Of an earlier wheel.
        if IS_COMPILED:
            shutil.copytree(COMPILED, inside)


class MaybeBinary(Distribution):  # type: ignore[misc]
    """Only with compiled modules is a wheel for one kind of machine."""

    def has_ext_modules(self) -> bool:
        """Setuptools' question when it names the wheel."""
        return IS_COMPILED


setup(cmdclass={"build_py": BuildWithCompiled}, distclass=MaybeBinary)
