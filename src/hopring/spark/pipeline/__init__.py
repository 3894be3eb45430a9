"""The pipeline: from spools and traces to tables, an audit and a report. Its page is `docs/pipeline.md`.

Each stage is a function from tables to a table; `spark/schema.py` has the columns. *Ingest* makes the bronze
tables, *reconcile* the silver ones, *measure* the gold ones; the audit and the report follow.
"""

from hopring.spark.pipeline.files import output_files
from hopring.spark.pipeline.run import run
from hopring.spark.pipeline.store import PipelineOptions, SpoolRoot, Store, named_spools, sites_of

__all__ = ["PipelineOptions", "SpoolRoot", "Store", "named_spools", "output_files", "run", "sites_of"]
