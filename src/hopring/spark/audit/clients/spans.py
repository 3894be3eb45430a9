"""What a session was to a group when something happened: the rows that sends and deliveries are joined with.

A delivery to a session names groups and no views. So a session's time is cut, for each group, into spans
between the events that concern the group. Spans are looked up by pieces of so many positions; then one look
finds the one or two that may be meant, however often a session came and went.
"""

from typing import Final

from hopring.spark.audit.clients.stays import STAY_ID

PIECE: Final = 1_024

_STAY: Final = STAY_ID.format(session="s.id", begins="t.shown_at")

SPANS: Final = f"""
WITH marks AS (
  SELECT run, process, group_name, position, kind FROM audit_small
  WHERE kind IN ('view', 'left', 'join', 'leave', 'connect') AND group_name IS NOT NULL),
timeline AS (
  SELECT run, process, group_name, position AS begins, lead(position) OVER sofar AS ends,
         max(IF(kind = 'view', position, NULL)) OVER sofar AS shown_at,
         max(IF(kind = 'left', position, NULL)) OVER sofar AS left_at,
         max(IF(kind = 'join', position, NULL)) OVER sofar AS join_at,
         max(IF(kind = 'leave', position, NULL)) OVER sofar AS leave_at,
         bool_or(kind = 'connect') OVER sofar AS private,
         max(IF(kind = 'leave', position, NULL)) OVER (PARTITION BY run, process, group_name) AS last_leave_at
  FROM (SELECT * FROM marks UNION ALL SELECT DISTINCT run, process, group_name, -1, 'nothing yet' FROM marks)
  WINDOW sofar AS (PARTITION BY run, process, group_name ORDER BY position)),
spans AS (
  SELECT s.id AS session_id, t.group_name, t.begins, coalesce(t.ends, s.high + 1) AS ends, t.private,
         IF(t.shown_at > coalesce(t.left_at, -1), {_STAY}, NULL) AS stay_id, t.last_leave_at,
         coalesce(t.join_at > coalesce(t.leave_at, -1), false) AS wanted,
         coalesce(t.leave_at > coalesce(t.join_at, -1), false) AS parting
  FROM timeline t JOIN audit_sessions s ON s.run = t.run AND s.process = t.process)
SELECT t.*, y.room, y.cut, p.group_id, IF(p.shown, p.number, NULL) AS number,
       explode(sequence(greatest(t.begins, 0) DIV {PIECE}, t.ends DIV {PIECE})) AS piece
FROM spans t LEFT JOIN audit_people p ON p.session_id = t.session_id AND p.group_name = t.group_name
     LEFT JOIN audit_stays y ON y.id = t.stay_id
"""
"""By session and group: its stay, if it is in a view; whether it had asked to be in (`wanted`) or to leave."""

FOUND: Final = f"""
    t.session_id = s.id AND t.group_name = e.group_name AND t.piece = e.position DIV {PIECE}
    AND e.position > t.begins AND e.position < t.ends
"""
"""The span `t` that the event `e` of the session `s` is in."""
