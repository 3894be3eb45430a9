"""Spark through PySpark: sessions, schemas, the data source, the pipeline's jobs. Needs the extra `spark`."""

from hopring.spark.java import ensure_java
from hopring.spark.registering import register
from hopring.spark.session import session

__all__ = ["ensure_java", "register", "session"]
