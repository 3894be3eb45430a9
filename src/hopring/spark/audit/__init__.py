"""The audit of a trace with Spark: the queries of all properties, over tables that are made for them.

The properties are those of `hopring.check.properties`; here are the tables that their queries need, and the
runner. The verdicts are those of the plain checkers, for traces that do not fit into one process. See
`docs/pipeline.md` for its use and `docs/properties.md` for the properties.
"""

from hopring.check.properties import CLIENTS, DAEMONS
from hopring.spark.audit.reading import Ends, read_trace
from hopring.spark.audit.runner import audit, audit_clients
from hopring.spark.audit.witness import AuditFinding, AuditReport

NAMES = tuple([one.name for one in DAEMONS])
CLIENT_NAMES = tuple([one.name for one in CLIENTS])

__all__ = [
    "CLIENT_NAMES",
    "NAMES",
    "AuditFinding",
    "AuditReport",
    "Ends",
    "audit",
    "audit_clients",
    "read_trace",
]
