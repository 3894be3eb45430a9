"""The report: one page about a run, from the gold tables and the audit. No pyspark here, only pyarrow.

`read` takes the tables in, `scales` and `words` turn values into places and text, one file per plot draws, and
`page` puts all of it together. `docs/pipeline.md` says how to read it.
"""

from hopring.spark.report.page import REPORT_FILE, write_report

__all__ = ["REPORT_FILE", "write_report"]
