"""Tables of a run in another format, and in a catalog."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.spark.spooling import fill

from hopring.spark.errors import SparkError

pytest.importorskip("pyspark", reason="needs Spark: make spark")
pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_tables_are_orc_and_in_the_catalog_and_an_unknown_format_is_refused(users: Any, tmp_path: Path) -> None:
    from hopring.spark.pipeline import PipelineOptions, Store, named_spools, run  # noqa: PLC0415  Extra.
    from hopring.spark.pipeline.publishing import register_tables  # noqa: PLC0415

    fill(tmp_path / "eu", "1", 40)
    spools = named_spools([str(tmp_path / "eu")])
    store = Store(tmp_path / "out's")
    store.open()

    def make(form: str, catalog: str | None) -> None:
        run(users, PipelineOptions(store.out, spools, report=False, form=form, catalog=catalog), store)

    unknown = "this session does not know the format delta; start Spark with its jars"
    with pytest.raises(SparkError, match=unknown):
        make("delta", "spark_catalog.hop")
    with pytest.raises(SparkError, match="tables of the format delta belong into a catalog; give --catalog"):
        make("delta", None)
    with pytest.raises(SparkError, match="'a b' is not the name of a catalog; write CATALOG"):
        make("orc", "a b")
    try:
        make("orc", "spark_catalog.hop")
        register_tables(users, store, "orc", "spark_catalog.hop")  # As a later run does.

        assert not list(store.out.rglob("*.parquet"))
        found = users.sql("SELECT spool, `group`, offset FROM spark_catalog.hop_bronze.records").collect()
        assert sorted(map(tuple, found)) == [("eu", "1", offset) for offset in range(40)]
        summary = users.table("hop_gold.summary").where("name = 'messages spooled'").first()
        assert summary["value"] == 40
        assert users.table("hop_silver.messages").count() == 40
    finally:
        for layer in ("bronze", "silver", "gold"):
            users.sql(f"DROP SCHEMA IF EXISTS hop_{layer} CASCADE")
    assert list(store.place("silver", "messages").glob("*.orc"))  # Dropping schemas leaves the files alone.
    assert Store(store.out).open()
