"""Making the data source known to a session."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUSHING: Final = "spark.sql.python.filterPushdown.enabled"


def register(spark: "SparkSession") -> None:
    """From now on the session knows `format("hopring")`, and pushes filters down to it."""
    from hopring.spark.source import SpoolDataSource  # noqa: PLC0415  An extra, and slow to load.

    spark.conf.set(PUSHING, "true")
    spark.dataSource.register(SpoolDataSource)
