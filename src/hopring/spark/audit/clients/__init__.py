"""What clients are promised (EVS-C), as queries over the rows of sessions.

The verdicts are those of the plain checker in `check/evs_c`. Processes are sessions, views are those of groups,
and a number that a set has a bit for is a session's number in one group: a history may have any number of small
groups, and each set is only as wide as the largest group is.
"""

from hopring.spark.audit.clients.judge import NAMES, PROPERTIES, audit_clients

__all__ = ["NAMES", "PROPERTIES", "audit_clients"]
