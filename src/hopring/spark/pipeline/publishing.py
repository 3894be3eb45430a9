"""Publishes the tables of a run for others: in another format of Spark, and in a catalog.

All stages work on Parquet. A run that is asked for another format copies its tables at its end. File formats
replace the Parquet files of a table at once; formats that keep a log of their own, such as Delta and Iceberg,
belong into a catalog, and `OUT` stays as it is.
"""

import re
from typing import TYPE_CHECKING, Final

from hopring.spark.errors import SparkError, of_spark
from hopring.spark.pipeline.store import CATALOG, Store
from hopring.spark.pipeline.upkeep import BATCH
from hopring.spark.schema import LAYERS, RUN, ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARQUET: Final = "parquet"
FILE_FORMATS: Final = frozenset({PARQUET, "orc"})
"""Formats whose tables are directories of files, and can hold all types of our columns."""

_PARTS: Final = {"records": ("spool", BATCH, "group"), "trace": (RUN, "daemon")}
_NAME: Final = re.compile(r"\w+(\.\w+)?")


def check_names(form: str, catalog: str | None) -> None:
    """Raises SparkError if a name cannot be one, or the format needs a catalog and there is none."""
    if catalog is not None and not _NAME.fullmatch(catalog):
        remedy = "write CATALOG, as spark_catalog, or CATALOG.PREFIX"
        raise SparkError(f"{catalog!r} is not the name of a catalog", remedy)
    if not re.fullmatch(r"[\w.]+", form):
        raise SparkError(f"{form!r} is not the name of a format", "write one that Spark knows, as orc")
    if form not in FILE_FORMATS and catalog is None:
        raise SparkError(f"tables of the format {form} belong into a catalog", "give --catalog as well")


def check_format(spark: "SparkSession", form: str) -> None:
    """Raises SparkError if the session does not know the format."""
    if form in FILE_FORMATS:
        return
    try:
        spark.read.format(form).load("file:///nothing").schema  # noqa: B018  Spark looks for the format only then.
    except Exception as error:
        if not of_spark(error):
            raise
        if "DATA_SOURCE_NOT_FOUND" in str(error):
            remedy = "start Spark with its jars (spark.jars.packages), and give that server by --remote"
            raise SparkError(f"this session does not know the format {form}", remedy) from None


def table_name(catalog: str, layer: str, table: str) -> str:
    """The full name of a table: `CATALOG.silver.messages`, or `CATALOG.PREFIX_silver.messages`."""
    name, _, prefix = catalog.partition(".")
    return f"`{name}`.`{prefix}_{layer}`.`{table}`" if prefix else f"`{name}`.`{layer}`.`{table}`"


def convert(spark: "SparkSession", store: Store, form: str) -> None:
    """Replaces the Parquet files of all tables by files of another format."""
    if form == PARQUET or form not in FILE_FORMATS:
        return
    for layer, table in _tables(store):
        found = _read(spark, store, layer, table)
        with store.making(layer, table) as place:
            writer = found.write.partitionBy(*_PARTS[table]) if table in _PARTS else found.write
            writer.format(form).save(store.files.uri(place))


def register_tables(spark: "SparkSession", store: Store, form: str, catalog: str) -> None:
    """Makes all tables known to a catalog, in place of those that it has under their names."""
    for layer, table in _tables(store):
        name = table_name(catalog, layer, table)
        schema = name.rpartition(".")[0]
        # With a place of its own, which is empty: DROP SCHEMA removes it with all that is in it.
        place = f" LOCATION '{_quoted(store.files.uri(CATALOG + '/' + layer))}'" if form in FILE_FORMATS else ""
        spark.sql(f"CREATE SCHEMA IF NOT EXISTS {schema}{place}")
        if form not in FILE_FORMATS:
            _read(spark, store, layer, table).writeTo(name).using(form).createOrReplace()
            continue
        spark.sql(f"DROP TABLE IF EXISTS {name}")
        columns = ddl({**LAYERS[layer][table], **({BATCH: "int"} if table == "records" else {})})
        where = _quoted(store.uri(layer, table))
        spark.sql(f"CREATE TABLE {name} ({columns}) USING {form} LOCATION '{where}'")


def refresh_tables(spark: "SparkSession", store: Store, catalog: str) -> None:
    """Lets this session look for the files of all tables again."""
    for layer, table in _tables(store):
        spark.catalog.refreshTable(table_name(catalog, layer, table))


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def _tables(store: Store) -> list[tuple[str, str]]:
    return [(layer, name) for layer, its in LAYERS.items() for name in its if store.has(layer, name)]


def _read(spark: "SparkSession", store: Store, layer: str, table: str) -> "DataFrame":
    columns = {**LAYERS[layer][table], **({BATCH: "int"} if table == "records" else {})}
    return spark.read.schema(ddl(columns)).parquet(store.uri(layer, table))
