"""The same run on this machine and on a standalone cluster gives the same tables."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.spark.two_sites import tell

from hopring.spark.schema import GOLD, SILVER

parquet = pytest.importorskip("pyarrow.parquet", reason="needs Spark: make spark")
pytest.importorskip("pyspark", reason="needs Spark: make spark")
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]

REPOSITORY = Path(__file__).parents[2]


def table(out: Path, layer: str, name: str) -> list[str]:
    return sorted(map(repr, parquet.read_table(out / layer / name).to_pylist()))


def test_a_cluster_makes_the_same_tables(tmp_path: Path) -> None:
    from hopring.spark.cluster import Standalone  # noqa: PLC0415  Needs the extra.

    story = tell(tmp_path / "story")
    # Workers find hopring by the same path as this process.
    paths = os.pathsep.join([str(REPOSITORY / "src"), str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
    places: dict[str, Any] = {"PYTHONPATH": paths, "SPARK_LOCAL_IP": "127.0.0.1"}

    def run(out: Path, *more: str) -> None:
        spools = [word for site in ("eu", "us") for word in ("--spool", str(story.spool(site)))]
        arguments = [*spools, "--trace", str(story.trace), "--out", str(out), "--no-report", *more]
        command = [sys.executable, "-m", "hopring.cli.main", "pipeline", "run", *arguments]
        done = subprocess.run(
            command, env={**os.environ, **places}, capture_output=True, text=True, check=False, timeout=600
        )
        assert done.returncode == 0, done.stderr
        assert "all 26 properties hold" in done.stdout

    run(tmp_path / "here")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", paths)
        with Standalone(workers=2, directory=tmp_path / "cluster") as cluster:
            run(tmp_path / "there", "--master", cluster.url)
            work = [path.name for path in (tmp_path / "cluster").glob("worker-*/app-*/*")]
    assert len(work) >= 2, "an executor had no work"

    for layer, tables in (("silver", SILVER), ("gold", GOLD)):
        for name in tables:
            assert table(tmp_path / "here", layer, name) == table(tmp_path / "there", layer, name), name
