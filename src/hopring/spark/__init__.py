"""Sessions, the data source `hopring`, the pipeline and its audit on PySpark. Needs the extra `spark`."""

from typing import TYPE_CHECKING, Final

from hopring.spark.decoding import decoded
from hopring.spark.java import ensure_java
from hopring.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["decoded", "ensure_java", "register", "session"]

_FILTER_PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"


def register(spark: "SparkSession") -> None:
    """Makes `format("hopring")` known to the session, and lets Spark push filters down to it."""
    from hopring.spark.datasource import SpoolDataSource  # noqa: PLC0415  An extra, and slow to load.

    spark.conf.set(_FILTER_PUSHDOWN, "true")
    # Spark looks for the name in the active session. That may be another one, which has it; this changes that.
    spark.createDataFrame([], "nothing int")
    spark.dataSource.register(SpoolDataSource)
