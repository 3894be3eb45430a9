from pathlib import Path

import pytest

from hopring.spark.errors import ForeignInput, SparkError, explained, one_line, readable


@pytest.fixture(autouse=True)
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "hopring" / "spark.log"


class FromSpark(Exception):
    __module__ = "pyspark.errors"


def test_a_long_error_of_spark_becomes_one_line_and_the_rest_is_logged(log: Path) -> None:
    story = "Could not parse Master URL: 'nonsense'\n\tat org.apache.spark.SparkContext\n" * 40

    error = explained(FromSpark(story), "Spark at nonsense")

    assert "\n" not in str(error)
    assert str(error).startswith("Spark at nonsense: this is not the address of a cluster; write --master as")
    assert error.detail == log
    assert log.read_text().count("org.apache.spark.SparkContext") == 40


def test_an_unknown_error_gives_its_first_sentence() -> None:
    text = "An error occurred while calling o42.collect.\n: java.lang.Exception: the reason\n\tat somewhere"

    assert one_line(text) == ": java.lang.Exception: the reason"
    assert one_line("\n\n") == "no reason given"
    assert len(one_line("x" * 1000)) == 300


def test_our_own_errors_are_not_changed() -> None:
    with pytest.raises(ForeignInput, match="no trace; look again"), readable("reading"):
        raise ForeignInput("no trace", "look again")


def test_what_is_not_of_spark_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError), readable("reading"):
        raise ZeroDivisionError


def test_what_spark_raises_is_explained() -> None:
    with pytest.raises(SparkError, match="Java ran out of memory"), readable("auditing"):
        raise FromSpark("java.lang.OutOfMemoryError: Java heap space")


def test_our_own_error_from_a_process_of_spark_is_shown_unchanged() -> None:
    said = """[PYTHON_DATA_SOURCE_ERROR] Failed to plan Python data source hopring in Python: Traceback:
  File "x.py", line 1, in count
    raise WrongOption(option)
hopring.spark.source.options.WrongOption: option payload: 'no' is neither true nor false; write true or false
 SQLSTATE: 38000"""

    error = explained(ValueError(said), "reading")

    assert error.problem == "reading: option payload: 'no' is neither true nor false"
    assert error.remedy == "write true or false"
