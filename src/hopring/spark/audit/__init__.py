"""The audit of a trace with Spark: extended virtual synchrony as queries that return violations.

`docs/pipeline.md` says how it is used, `docs/properties.md` what is checked. The verdicts are those of the
plain checker in `check/evs`; the way to them is another, made for traces that do not fit into one process.
"""

from hopring.spark.audit.ends import Ends
from hopring.spark.audit.judge import NAMES, PROPERTIES, Finding, Report, audit
from hopring.spark.audit.property import Property
from hopring.spark.audit.read import read_trace

__all__ = ["NAMES", "PROPERTIES", "Ends", "Finding", "Property", "Report", "audit", "read_trace"]
