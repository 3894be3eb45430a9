"""The summary: the run in a dozen numbers."""

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hopring.spark.schema import GOLD, shaped

Tables = Mapping[str, DataFrame]


def summary(tables: Tables) -> DataFrame:
    """Of the tables by their names: the records of bronze, those of silver, and those of gold."""
    parts = [
        _row(
            tables["throughput"],
            {
                "messages sent": F.sum("sent"),
                "messages delivered": F.sum("delivered"),
                "bytes sent": F.sum("bytes"),
            },
        ),
        _row(
            tables["daemons"],
            {"daemons": F.count_distinct("daemon"), "sites": F.count_distinct("site")},
        ),
        _row(tables["membership"], {"views": F.count_distinct("view")}),
        _row(tables["records"], {"spools": F.count_distinct("spool"), "records": F.count("*")}),
        _row(
            tables["messages"],
            {"messages spooled": F.count("*"), "duplicates removed": F.sum(F.col("copies") - 1)},
        ),
        _row(tables["gaps"], {"gaps": F.count("*"), "gaps unexplained": F.count_if(~F.col("explained"))}),
    ]
    return shaped(reduce(DataFrame.unionByName, parts), GOLD["summary"])


def _row(table: DataFrame, figures: Mapping[str, object]) -> DataFrame:
    one = table.agg(*[F.coalesce(what, F.lit(0)).alias(name) for name, what in figures.items()])
    entries = [
        F.struct(F.lit(name).alias("name"), F.col(f"`{name}`").cast("double").alias("value"))
        for name in figures
    ]
    return one.select(F.inline(F.array(*entries)))
