"""What was sent: every message with its place in the one order.

A message is known by a hash of 64 bits of its name; among 20 million messages two share one with a chance of
one in 100 000, and then a violation would be seen that is none. Its `place` is a number that rises with the
stamp; from there on the place is its name.
"""

from hopring.services import Service

SERVICE = (
    "CAST(CASE service "
    + " ".join(f"WHEN '{one.name.lower()}' THEN {int(one)}" for one in reversed(Service))
    + " END AS INT)"
)
STAMP = "xxhash64(ord_lts, ord_site, ord_view, ord_place)"
KEY = "xxhash64(run, message)"
DOOR = "xxhash64(run, process, view)"
LIFE = "xxhash64(run, process)"

DOORS = f"""
SELECT *, {LIFE} AS life, CASE WHEN stay > 0 THEN {DOOR} END AS door,
       CASE WHEN stay > 0 THEN xxhash64(view) END AS view_key
FROM audit_stays
"""
"""Stays, as events find them: by hashes of who and where, or of who.

Comparing names for each event would take longer than all the rest.
"""


def placed(kind: str, columns: str, more: str = "", hint: str = "") -> str:
    """Message events with the stay they are in, and further joins.

    Nearly all are in the view that they name, and one look finds it. Only for the others are all stays of the
    process gone through: a key that is null finds nothing and costs nothing.
    """
    return f"""
    SELECT /*+ BROADCAST(named), BROADCAST(other) */ {hint} {columns}
    FROM (SELECT *, {SERVICE} AS promised, {STAMP} AS stamp, {KEY} AS key,
                 {DOOR} AS door, {LIFE} AS life
          FROM audit_trace WHERE kind = '{kind}') e
    LEFT JOIN audit_doors named ON named.door = e.door AND e.position > named.begins AND e.position < named.ends
    LEFT JOIN audit_doors other ON other.life = CASE WHEN named.id IS NULL THEN e.life END
         AND e.position > other.begins AND e.position < other.ends
    {more}
    """


SENDS = placed(
    "send",
    """
    e.run, e.process, e.position, e.message, e.key, e.promised AS service, e.stamp, e.view,
    e.ord_lts, e.ord_site, e.ord_view, e.ord_place, e.file, e.row,
    left(e.message, length(e.message) - length(substring_index(e.message, ':', -1)) - 1) AS sender,
    coalesce(named.id, other.id) AS stay_id, coalesce(named.view, other.view) AS stay_view
    """,
)

TWICE = "SELECT key FROM audit_sends GROUP BY key HAVING count(*) > 1"
"""Messages that were sent again; none, if all is well."""

ODD = """
SELECT run, process, position, message, service, sender, view, ord_view, stay_view FROM audit_sends
WHERE process <> sender OR (view <> ord_view AND service > 1) OR view < stay_view
"""
"""Sends that are wrong by themselves, in another's name or with another view's stamp; none, if all is well."""

ALIKE = """
SELECT min(place) AS place, max(place) AS other_place
FROM audit_messages WHERE service > 1 GROUP BY run, stamp HAVING count(*) > 1
"""
"""Messages that have one stamp; none, if all is well."""

_SEND = """
SELECT run, message, key, service, stamp, sender, process AS by, position, view, true AS sent,
       ord_lts, ord_site, ord_view, ord_place, file, row, '' AS process, stay_id
"""


def first_sends(some_twice: bool) -> str:
    """Of each message its first send."""
    if not some_twice:
        return f"{_SEND} FROM audit_sends"
    return f"""
    {_SEND} FROM (SELECT *, row_number() OVER (PARTITION BY key ORDER BY file, row) AS nth FROM audit_sends)
    WHERE nth = 1
    """


NEVER_SENT = f"""
SELECT DISTINCT t.key FROM (SELECT {KEY} AS key FROM audit_trace WHERE kind = 'deliver') t
       LEFT ANTI JOIN audit_sends m ON m.key = t.key
"""
"""Messages that were delivered and of which there is no send."""

FOUNDLINGS = f"""
SELECT run, message, key, service, stamp, sender, CAST(NULL AS STRING) AS by, CAST(NULL AS BIGINT) AS position,
       CAST(NULL AS STRING) AS view, false AS sent, ord_lts, ord_site, ord_view, ord_place,
       '~' AS file, at AS row, process, CAST(NULL AS BIGINT) AS stay_id
FROM (SELECT t.run, t.message, k.key, {SERVICE} AS service, {STAMP} AS stamp, t.sender, t.process,
             t.position AS at, t.ord_lts, t.ord_site, t.ord_view, t.ord_place,
             row_number() OVER (PARTITION BY k.key ORDER BY t.process, t.position) AS nth
      FROM (SELECT *, {KEY} AS key FROM audit_trace WHERE kind = 'deliver') t
           JOIN audit_never_sent k ON k.key = t.key)
WHERE nth = 1
"""
"""What was delivered and never sent: its first delivery says what it is."""


def messages(first: str) -> str:
    """Every message with its place in the order; the rows are sorted, so the numbers given to them rise.

    The clocks come first, though runs have nothing to do with each other: Spark compares the first column as a
    number beside the row, and looks into the rows only where it is the same.
    """
    return f"""
    SELECT /*+ BROADCAST(p) */ o.*, coalesce(p.number, xxhash64(o.run, o.sender)) AS session
    FROM (SELECT key, run, message, service, stamp, sender, by, position AS sent_at, view AS sent_view, sent,
                 stay_id, monotonically_increasing_id() AS place
          FROM (SELECT * FROM ({first})
                ORDER BY ord_lts, ord_site, ord_view, ord_place, run, file, process, row)) o
         LEFT JOIN audit_people p ON p.run = o.run AND p.process = o.sender
    """


ORDER = """
SELECT key, place, service, session, sent_at, stamp, sent, by = sender AS own,
       CASE WHEN sent THEN xxhash64(sent_view) END AS view_key
FROM audit_messages
"""
"""What of a message a pass over deliveries needs: little enough to be everywhere."""

POSTS = """
SELECT run, by AS process, sent_at AS position, service, sent_view AS view, stay_id, place, session
FROM audit_messages WHERE sent
UNION ALL
SELECT s.run, s.process, s.position, s.service, s.view, s.stay_id, m.place, m.session
FROM audit_sends s JOIN audit_twice t ON t.key = s.key JOIN audit_messages m ON m.key = s.key
WHERE s.process <> m.by OR s.position <> m.sent_at
"""
"""Every send with the place of its message."""
