"""Spark through PySpark: sessions, schemas and the jobs of the pipeline. Needs the extra `spark`."""

from hopring.spark.java import ensure_java
from hopring.spark.session import session

__all__ = ["ensure_java", "session"]
