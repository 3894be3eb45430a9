"""The report: one HTML page about a run, from the gold tables and the audit. Needs pyarrow, but no pyspark.

`gold` reads the tables, `scales` and `texts` turn values into positions and text, `membership`, `throughput`,
`latency` and `summary` make the sections, and `page` joins them. `docs/pipeline.md` explains the
page.
"""

from hopring.spark.report.page import REPORT_FILE, write_report

__all__ = ["REPORT_FILE", "write_report"]
