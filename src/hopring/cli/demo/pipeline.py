"""The last act: the pipeline on Spark over what was recorded. Without Spark the demonstration is whole too."""

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import msgspec

from hopring.spark import session
from hopring.spark.audit.reading import Ends
from hopring.spark.errors import NoJava
from hopring.spark.java import decide, look

DIRECTORY: Final = "pipeline"
REPORT_FILE: Final = "report.html"
INSTALL: Final = "no report: it is made with Spark, which is not installed; pip install 'hopring[spark,jdk]'"
LEFT_OUT: Final = "no report: left out by --no-spark"


class Outcome(msgspec.Struct, frozen=True):
    """What came of a pipeline."""

    report: Path
    holds: bool  # The audit found nothing broken.


def lacking(find: Callable[[str], object] = find_spec) -> str | None:
    """What has to be installed first, in one line; None if all is there."""
    if find("pyspark") is None or find("pyarrow") is None:
        return INSTALL
    try:
        decide(look(os.environ))
    except NoJava as error:
        return f"no report: {error}"
    return None


def run_pipeline(
    spools: Mapping[str, Path], trace: Path, directory: Path, ends: Ends, say: Callable[[str], None]
) -> Outcome:
    """Tables, audit and report; SparkError if it cannot be done."""
    # Loaded here: it takes Spark with it, and a demonstration without it should not wait.
    pipeline = import_module("hopring.spark.pipeline")
    out = directory / DIRECTORY
    store = pipeline.Store(out)
    store.open()
    spark = session("hop demo")
    try:
        stock = tuple([pipeline.SpoolRoot(name, str(path)) for name, path in sorted(spools.items())])
        found = pipeline.run(spark, pipeline.PipelineOptions(out, stock, trace, ends=ends), store, say)
    finally:
        spark.stop()
    assert found is not None, "there is a trace, so there is an audit"
    return Outcome(out / REPORT_FILE, found.holds)
