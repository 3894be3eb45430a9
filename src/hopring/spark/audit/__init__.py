"""The audit of a trace with Spark: extended virtual synchrony as queries that return violations.

`docs/pipeline.md` says how it is used, `docs/properties.md` what is checked. The verdicts are those of the
plain checkers in `check/evs` and, of clients (`clients/`), `check/evs_c`; the way to them is another, made for
traces that do not fit into one process.
"""

from hopring.spark.audit.both import audit
from hopring.spark.audit.clients import NAMES as CLIENT_NAMES
from hopring.spark.audit.ends import Ends
from hopring.spark.audit.judge import NAMES, PROPERTIES, Finding, Report
from hopring.spark.audit.property import Property
from hopring.spark.audit.read import read_trace

__all__ = [
    "CLIENT_NAMES",
    "NAMES",
    "PROPERTIES",
    "Ends",
    "Finding",
    "Property",
    "Report",
    "audit",
    "read_trace",
]
