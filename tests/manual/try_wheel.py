"""Installs the wheel in a new environment, outside this checkout, and checks that its daemons run compiled.

    python -m tests.manual.try_wheel dist/*.whl

`make wheel` runs this with the wheel that it has built. Dependencies come from the package index, as they do
for users. A wheel built without a C compiler is reported as interpreted, which is not a failure.
"""

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
CONSTRAINTS: Final = ROOT / "constraints.txt"
INTERPRETED: Final = "-none-any.whl"
SECONDS_MAX: Final = 600

LOOK: Final = """
import hopring, sys
from hopring import compiled, stack
from hopring.sync import local_cluster

assert hopring.__file__.startswith(sys.prefix), hopring.__file__
print("compiled" if compiled.active() and stack.__file__.endswith(".so") else "interpreted")
with local_cluster({"eu": 1, "us": 1}) as cluster:
    one, other = cluster.connect("eu1"), cluster.connect("us1")
    there = other.join("hello")
    one.multicast("hello", b"from the wheel")
    while not (data := getattr(there.receive(), "data", None)):
        pass
    print(bytes(data).decode())
"""


class Broken(Exception):
    """The wheel does not do what it should."""


def run(*command: str, away: Path) -> str:
    """Runs a command outside the checkout, without the environment's module paths; returns its output."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "HOPRING"))}
    done = subprocess.run(
        command, cwd=away, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    if done.returncode:
        raise Broken(f"{' '.join(command[:4])} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def try_wheel(wheel: Path, away: Path) -> list[str]:
    """Installs the wheel there; returns what it reports about itself."""
    venv.create(away / "venv", with_pip=True, symlinks=True)
    programs = away / "venv" / "bin"
    pip = (str(programs / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    run(*pip, "--constraint", str(CONSTRAINTS), str(wheel), away=away)
    version = run(str(programs / "hop"), "--version", away=away)
    kind, said = run(str(programs / "python"), "-c", LOOK, away=away).splitlines()
    if said != "from the wheel":
        raise Broken(f"a client heard {said!r}")
    wanted = "interpreted" if wheel.name.endswith(INTERPRETED) else "compiled"
    if kind != wanted:
        raise Broken(f"{wheel.name} runs {kind}; it should run {wanted}")
    return [version, f"it runs {kind}; a message went from one of its daemons to another"]


def main() -> int:
    """Reads the command line and tries each wheel."""
    wheel = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="hop-wheel-") as name:
        try:
            said = try_wheel(wheel, Path(name))
        except Broken as error:
            print(error, file=sys.stderr)
            return 1
    print("\n".join([wheel.name, *said]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
