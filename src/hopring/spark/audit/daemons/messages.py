"""Sends and messages: every message with its place in the one order.

A message is known by a hash of 64 bits of its name; among 20 million messages two share one with a chance of
one in 100 000, and then a violation would be seen that is none. Its `place` is a number that rises with the
stamp; from there on the place is its name.
"""

from enum import IntFlag

from hopring.check.properties.sql import RELIABLE, SERVICE_NUMBER

SERVICE = f"CAST({SERVICE_NUMBER} AS INT)"
STAMP = "xxhash64(run, ord_lts, ord_site, ord_view, ord_place)"
KEY = "xxhash64(run, message)"
STAY_KEY = "xxhash64(run, process, view)"
LIFE = "xxhash64(run, process)"

STAY_KEYS = f"""
SELECT *, {LIFE} AS life, CASE WHEN stay > 0 THEN {STAY_KEY} END AS stay_key,
       CASE WHEN stay > 0 THEN xxhash64(view) END AS view_key
FROM audit_stays
"""
"""Stays with hashes of process and view, and of the process, by which events find theirs.

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
                 {STAY_KEY} AS stay_key, {LIFE} AS life
          FROM audit_trace WHERE kind = '{kind}') e
    LEFT JOIN audit_stay_keys named ON named.stay_key = e.stay_key
         AND e.position > named.begins AND e.position < named.ends
    LEFT JOIN audit_stay_keys other ON other.life = CASE WHEN named.id IS NULL THEN e.life END
         AND e.position > other.begins AND e.position < other.ends
    {more}
    """


_SENDER = "left(e.message, length(e.message) - length(substring_index(e.message, ':', -1)) - 1)"


class Odd(IntFlag):
    """Flaws of a send by itself."""

    NAME = 1  # It is sent in the name of another.
    STAMP = 2  # The stamp is of another view than the send names.
    VIEW = 4  # It names an earlier view than its sender is in.


NAMED_SENDS = placed(
    "send",
    f"""
    /*+ BROADCAST(p) */ e.run, e.message, e.view, e.file, e.row, e.key, e.promised AS service, e.stamp,
    e.position, e.ord_lts, e.ord_site, e.ord_view, e.ord_place, xxhash64(e.view) AS view_key,
    coalesce(p.number, xxhash64(e.run, {_SENDER})) AS session, coalesce(named.id, other.id) AS stay_id,
    IF(e.process <> {_SENDER}, {int(Odd.NAME)}, 0)
    + IF(e.view <> e.ord_view AND e.promised IN {RELIABLE}, {int(Odd.STAMP)}, 0)
    + IF(e.view < coalesce(named.view, other.view), {int(Odd.VIEW)}, 0) AS odd
    """,
    f"LEFT JOIN audit_processes p ON p.run = e.run AND p.process = {_SENDER}",
)
"""All sends, with their names; as they are in the trace, not kept."""

_NUMBERS = """
key, service, stamp, position, ord_lts, ord_site, ord_view, ord_place, view_key, session, stay_id
"""

SENDS = f"SELECT {_NUMBERS}, odd FROM audit_named_sends"
"""All sends, as numbers."""

TWICE = "SELECT key FROM audit_sends GROUP BY key HAVING count(*) > 1"
"""Messages that were sent again; none, if all is well."""

TIES = f"SELECT stamp FROM audit_sends WHERE service IN {RELIABLE} GROUP BY stamp HAVING count(*) > 1"
"""Stamps that were given twice; none, if all is well."""

WRONG = "SELECT stay_id, position FROM audit_sends WHERE odd <> 0"
"""The places of sends that are wrong by themselves; none, if all is well."""

ODD = f"""
SELECT t.run, t.process, s.position, s.message, s.view, t.view AS stay_view,
       (s.odd & {int(Odd.NAME)}) <> 0 AS other_name, (s.odd & {int(Odd.STAMP)}) <> 0 AS other_stamp,
       (s.odd & {int(Odd.VIEW)}) <> 0 AS earlier_view
FROM audit_wrong w JOIN audit_named_sends s ON s.stay_id = w.stay_id AND s.position = w.position
     JOIN audit_stays t ON t.id = w.stay_id
"""
"""These sends."""

ALIKE = f"""
SELECT min(place) AS place, max(place) AS other_place
FROM audit_messages WHERE service IN {RELIABLE} GROUP BY stamp HAVING count(*) > 1
"""
"""Messages that have one stamp; none, if all is well."""

_SEND = f"SELECT {_NUMBERS}, true AS sent, (odd & {int(Odd.NAME)}) = 0 AS own"
_SEEN = "run, message, view, file, '' AS process, row"

FIRST_SENDS = f"{_SEND} FROM audit_sends"
"""Of each message its send, where each is sent once."""

FIRST_OF_TWO = f"""
{_SEND}, {_SEEN}
FROM (SELECT *, row_number() OVER (PARTITION BY key ORDER BY file, row) AS nth FROM audit_named_sends)
WHERE nth = 1
"""
"""Of each message its first send, with what tells those of one stamp apart."""

NEVER_SENT = f"""
SELECT DISTINCT t.key FROM (SELECT {KEY} AS key FROM audit_trace WHERE kind = 'deliver') t
       LEFT ANTI JOIN audit_sends m ON m.key = t.key
"""
"""Messages that were delivered and of which there is no send."""

UNSENT = f"""
SELECT key, service, stamp, CAST(NULL AS BIGINT) AS position, ord_lts, ord_site, ord_view, ord_place,
       CAST(NULL AS BIGINT) AS view_key, session, CAST(NULL AS BIGINT) AS stay_id, false AS sent, false AS own,
       run, message, CAST(NULL AS STRING) AS view, '~' AS file, process, at AS row
FROM (SELECT t.run, t.message, k.key, t.promised AS service, t.stamp, t.process, t.position AS at,
             t.ord_lts, t.ord_site, t.ord_view, t.ord_place,
             coalesce(p.number, xxhash64(t.run, t.sender)) AS session,
             row_number() OVER (PARTITION BY k.key ORDER BY t.process, t.position) AS nth
      FROM (SELECT *, {KEY} AS key, {SERVICE} AS promised, {STAMP} AS stamp
            FROM audit_trace WHERE kind = 'deliver') t
           JOIN audit_never_sent k ON k.key = t.key
           LEFT JOIN audit_processes p ON p.run = t.run AND p.process = t.sender)
WHERE nth = 1
"""
"""Messages that were delivered and never sent, described by their first delivery."""


def messages(first: str, seen: bool) -> str:
    """Every message with its place in the order; the rows are sorted, so the numbers given to them rise.

    The clocks come first, though runs have nothing to do with each other: Spark compares the first column as a
    number beside the row, and looks into the rows only where it is the same. Of messages with the same stamp,
    if there are any, the first that is `seen` comes first.
    """
    ties = ", run, file, process, row" if seen else ""
    return f"""
    SELECT key, service, stamp, position AS sent_at, view_key, session, stay_id, sent, own,
           monotonically_increasing_id() AS place
    FROM (SELECT * FROM ({first}) ORDER BY ord_lts, ord_site, ord_view, ord_place {ties})
    """


def named(first: str) -> str:
    """The names of messages, for the witnesses."""
    return f"""
    SELECT m.place, n.run, n.message, n.view AS sent_view
    FROM audit_messages m JOIN ({first}) n ON n.key = m.key
    """


POSTS = """
SELECT sent_at AS position, service, view_key, stay_id, place, session FROM audit_messages WHERE sent
UNION ALL
SELECT s.position, s.service, s.view_key, s.stay_id, m.place, m.session
FROM audit_sends s JOIN audit_twice t ON t.key = s.key JOIN audit_messages m ON m.key = s.key
WHERE s.stay_id <> m.stay_id OR s.position <> m.sent_at
"""
"""Every send with the place of its message."""
