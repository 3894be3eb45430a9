"""The large tables: what was sent, what was delivered where, and who has which message.

A message is known by a hash of 64 bits of its name; among 20 million messages two share one with a chance of
one in 100 000, and then a violation would be seen that is none. Its `place` in the one order is a number that
rises with the stamp. Deliveries are reduced to a few numbers each, and then to *holdings*: one row per message
and view, with the processes that delivered it there before the signal (`early`) and behind it (`late`).
"""

from hopring.services import Service
from hopring.spark.audit.masks import Masks

_SERVICE = (
    "CAST(CASE service "
    + " ".join(f"WHEN '{one.name.lower()}' THEN {int(one)}" for one in reversed(Service))
    + " END AS TINYINT)"
)
_STAMP = "xxhash64(ord_lts, ord_site, ord_view, ord_place)"
KEY = "xxhash64(run, message)"


def _placed(kind: str, columns: str) -> str:
    """Message events with the stay they are in.

    Nearly all are in the view that they name, and one look finds it. Only for the others are all stays of the
    process gone through: a key that is null finds nothing and costs nothing.
    """
    return f"""
    SELECT /*+ BROADCAST(named), BROADCAST(other) */ {columns}
    FROM (SELECT *, {_SERVICE} AS promised, {_STAMP} AS stamp, {KEY} AS key
          FROM audit_trace WHERE kind = '{kind}') e
    LEFT JOIN audit_stays named
         ON named.run = e.run AND named.process = e.process AND named.view = e.view
         AND e.position > named.begins AND e.position < named.ends
    LEFT JOIN audit_stays other
         ON other.run = e.run AND other.process = CASE WHEN named.id IS NULL THEN e.process END
         AND e.position > other.begins AND e.position < other.ends
    """


SENDS = _placed(
    "send",
    """
    e.run, e.process, e.position, e.message, e.key, e.promised AS service, e.stamp, e.view,
    e.ord_lts, e.ord_site, e.ord_view, e.ord_place, e.file, e.row,
    left(e.message, length(e.message) - length(substring_index(e.message, ':', -1)) - 1) AS sender,
    coalesce(named.id, other.id) AS stay_id, coalesce(named.view, other.view) AS stay_view
    """,
)

DELIVERIES = _placed(
    "deliver",
    """
    e.key, coalesce(named.id, other.id) AS stay_id, coalesce(named.room, other.room) AS room,
    CAST(coalesce(named.number, other.number) AS INT) AS number, e.position, e.promised AS service, e.stamp,
    coalesce(e.position > coalesce(named.cut, other.cut), false) AS late,
    e.sender = e.process AS own, named.id IS NULL AS misplaced
    """,
)

NEVER_SENT = """
SELECT DISTINCT d.key FROM audit_deliveries d LEFT ANTI JOIN audit_sends s ON s.key = d.key
"""

FIRST_SENDS = """
SELECT run, message, key, service, stamp, sender, process AS by, position, view, true AS sent,
       ord_lts, ord_site, ord_view, ord_place, struct(file, row, '' AS process, position) AS seen
FROM (SELECT *, row_number() OVER (PARTITION BY key ORDER BY file, row) AS nth FROM audit_sends) WHERE nth = 1
"""

FOUNDLINGS = f"""
SELECT run, message, key, service, stamp, sender, CAST(NULL AS STRING) AS by, CAST(NULL AS BIGINT) AS position,
       CAST(NULL AS STRING) AS view, false AS sent, ord_lts, ord_site, ord_view, ord_place,
       struct('~' AS file, CAST(0 AS BIGINT) AS row, process, position) AS seen
FROM (SELECT t.run, t.message, k.key, {_SERVICE} AS service, {_STAMP} AS stamp, t.sender, t.process, t.position,
             t.ord_lts, t.ord_site, t.ord_view, t.ord_place,
             row_number() OVER (PARTITION BY k.key ORDER BY t.process, t.position) AS nth
      FROM (SELECT *, {KEY} AS key FROM audit_trace WHERE kind = 'deliver') t
           JOIN audit_never_sent k ON k.key = t.key)
WHERE nth = 1
"""
"""What was delivered and never sent: its first delivery says what it is."""


def messages(m: Masks, first: str) -> str:
    """Every message with its place in the order; the rows are sorted, so the numbers given to them rise."""
    return f"""
    SELECT o.*, {m.each("coalesce(p.self#, 0) AS sender#")} FROM (
      SELECT key, run, message, service, stamp, sender, by, position AS sent_at, view AS sent_view, sent,
             xxhash64(run, sender) AS session, monotonically_increasing_id() AS place
      FROM (SELECT * FROM ({first})
            ORDER BY run, ord_lts, ord_site, ord_view, ord_place, seen.file, seen.row, seen.process,
                     seen.position)) o
    LEFT JOIN (SELECT run, process, {m.each(f"{m.bit('number')} AS self#")} FROM audit_people) p
         ON p.run = o.run AND p.process = o.sender
    """


def holdings(m: Masks) -> str:
    """By message and view: what its deliveries there say, and who has it there and anywhere."""
    return f"""
    WITH had AS (
      SELECT key, room, count(*) AS times, min(service) AS low_service, max(service) AS high_service,
             min(stamp) AS low_stamp, max(stamp) AS high_stamp, min(IF(misplaced, position, NULL)) AS misplaced,
             min(IF(own, position, NULL)) AS own_at, {m.each(f"bit_or({m.bit('number', 'late')}) AS early#")},
             {m.each(f"bit_or({m.bit('number', 'NOT late')}) AS late#")}
      FROM audit_deliveries GROUP BY key, room)
    SELECT h.*, {m.each("h.early# | h.late# AS here#")},
           {m.each("bit_or(h.early# | h.late#) OVER (PARTITION BY h.key) AS got#")},
           x.run, x.message, x.place, x.service, x.stamp, x.sent, x.sent_at, x.sent_view, x.sender, x.by,
           {m.columns("x.sender")}, r.view, coalesce(r.nth, 1) AS nth,
           {m.each("coalesce(r.installed#, 0) AS installed#")}, {m.each("coalesce(r.ended#, 0) AS ended#")},
           {m.each("coalesce(r.signalled#, 0) AS signalled#")}
    FROM had h JOIN audit_messages x ON x.key = h.key LEFT JOIN audit_rooms r ON r.room = h.room
    """


def reach(m: Masks) -> str:
    """By message: who has it, how often it was delivered, and in which views."""
    return f"""
    SELECT key, first(run) AS run, first(message) AS message, first(service) AS service, sum(times) AS times,
           {m.each("bit_or(here#) AS got#")}, min(view) AS low_view, max(view) AS high_view
    FROM audit_holdings GROUP BY key
    """


def owed(m: Masks) -> str:
    """By view: its members, and those that come along from it, each as some have it; with who these are."""
    return f"""
    SELECT room, false AS behind, {m.each("members# AS owed#")}, {m.each("bit_or(self#) AS said_by#")}
    FROM audit_stays WHERE stay > 0 GROUP BY room, {m.columns("members")}
    UNION ALL
    SELECT room, true, {m.each("after_together# AS owed#")}, {m.each("bit_or(self#) AS said_by#")}
    FROM audit_stays WHERE stay > 0 AND after_view IS NOT NULL GROUP BY room, {m.columns("after_together")}
    """
