"""Sessions in views of groups: one row per stay, which a view begins and the next one or a `left` ends.

A stay that follows a join has none before it, so `before_view` is null. A view that a session is shown a second
time is another room, for which `nth` is above 1, as among daemons.
"""

from typing import Final

from hopring.spark.audit.clients.sessions import persons
from hopring.spark.audit.masks import Masks

SIGNALS: Final = """
WITH placed AS (
  SELECT run, process, group_name, position, kind, view, transitional_set,
         max(IF(kind = 'view', position, NULL)) OVER sofar AS shown_at,
         max(IF(kind = 'left', position, NULL)) OVER sofar AS left_at
  FROM audit_small WHERE kind IN ('view', 'left', 'transitional')
  WINDOW sofar AS (PARTITION BY run, process, group_name ORDER BY position))
SELECT s.id AS session_id, g.id AS group_id, p.run, p.process, p.group_name, p.position, p.view,
       p.transitional_set, IF(p.shown_at > coalesce(p.left_at, -1), p.shown_at, NULL) AS begins
FROM placed p JOIN audit_sessions s ON s.run = p.run AND s.process = p.process
     LEFT JOIN audit_groups g ON g.run = p.run AND g.group_name = p.group_name
WHERE p.kind = 'transitional'
"""
"""Each signal with the stay it is in, by where that begins; null if it is in none."""

STAY_ID: Final = "{session} * 1099511627776 + {begins}"
"""A session has no two events at one position, and fewer than 2**40."""


def stays(m: Masks) -> str:
    """One row per stay, with its neighbours, its sets, and its signals."""
    stay_id = STAY_ID.format(session="l.session_id", begins="l.begins")
    return f"""
    WITH chain AS (
      SELECT *, lag(kind) OVER life <=> 'view' AS continues, lead(kind) OVER life <=> 'view' AS continued,
             lead(kind) OVER life <=> 'left' AS leaves, lead(position) OVER life AS ends
      FROM audit_small WHERE kind IN ('view', 'left')
      WINDOW life AS (PARTITION BY run, process, group_name ORDER BY position)),
    rooms AS (
      SELECT p.group_id, p.session_id, c.run, c.process, c.group_name, c.position AS begins, c.view, c.cause,
             c.members, c.transitional_set, c.continues, c.continued, c.leaves, p.alive, p.number,
             {m.columns("p.self")},
             row_number() OVER (PARTITION BY p.group_id, p.session_id, c.view ORDER BY c.position) AS nth
      FROM chain c JOIN {persons(m)} p
           ON p.run = c.run AND p.group_name = c.group_name AND p.process = c.process
      WHERE c.kind = 'view'),
    sets AS (
      SELECT n.group_id, n.session_id, n.begins, {m.each("bit_or(IF(n.whole, p.self#, 0)) AS members#")},
             {m.each("bit_or(IF(n.whole, 0, p.self#)) AS together#")}
      FROM (SELECT group_id, session_id, begins, true AS whole, explode(members) AS named FROM rooms
            UNION ALL
            SELECT group_id, session_id, begins, false, explode(transitional_set) FROM rooms) n
           JOIN {persons(m)} p ON p.group_id = n.group_id AND p.process = n.named
      GROUP BY n.group_id, n.session_id, n.begins),
    signals AS ({_signals_by_stay(m)}),
    linked AS (
      SELECT r.group_id, r.session_id, r.run, r.process, r.group_name, r.begins, r.view, r.nth, r.leaves,
             r.alive, r.number, {m.columns("r.self")}, {m.each("coalesce(s.members#, 0) AS members#")},
             {m.each("coalesce(s.together#, 0) AS together#")}, lag(r.view) OVER life AS earlier_view,
             IF(r.continues, lag(r.view) OVER life, NULL) AS before_view,
             IF(r.continued, lead(r.view) OVER life, NULL) AS after_view,
             IF(r.continued, lead(r.cause) OVER life, NULL) AS after_cause,
             {m.each("IF(r.continues, coalesce(lag(s.members#) OVER life, 0), 0) AS before_members#")},
             {m.each("IF(r.continued, coalesce(lead(s.together#) OVER life, 0), 0) AS after_together#")}
      FROM rooms r LEFT JOIN sets s
           ON s.group_id = r.group_id AND s.session_id = r.session_id AND s.begins = r.begins
      WINDOW life AS (PARTITION BY r.group_id, r.session_id ORDER BY r.begins))
    SELECT {stay_id} AS id, xxhash64(l.group_id, l.view, l.nth) AS room, l.*, instr(l.view, '/') > 0 AS closing,
           l.after_view IS NULL AND (l.leaves OR NOT l.alive) AS ended,
           g.cut, coalesce(g.signals, 0) AS signals, g.misplaced_signal,
           {m.each("coalesce(g.signal_together#, 0) AS signal_together#")}
    FROM linked l LEFT JOIN signals g
         ON g.group_id = l.group_id AND g.session_id = l.session_id AND g.begins = l.begins
    """


def _signals_by_stay(m: Masks) -> str:
    """Where the first signal of a stay is and for whom, how many there are, and one that names another view."""
    return f"""
    SELECT said.*, {m.columns("heard.signal_together")}
    FROM (SELECT r.group_id, r.session_id, r.begins, min(g.position) AS cut, count(*) AS signals,
                 min(IF(g.view <=> r.view, NULL, g.position)) AS misplaced_signal
          FROM audit_signals g JOIN rooms r
               ON r.group_id = g.group_id AND r.session_id = g.session_id AND r.begins = g.begins
          GROUP BY r.group_id, r.session_id, r.begins) said
    LEFT JOIN (SELECT n.group_id, n.session_id, n.position, {m.each("bit_or(p.self#) AS signal_together#")}
               FROM (SELECT group_id, session_id, position, explode(transitional_set) AS named
                     FROM audit_signals) n
                    JOIN {persons(m)} p ON p.group_id = n.group_id AND p.process = n.named
               GROUP BY n.group_id, n.session_id, n.position) heard
         ON heard.group_id = said.group_id AND heard.session_id = said.session_id AND heard.position = said.cut
    """


def rooms(m: Masks) -> str:
    """One row per view: who was shown it, and who had a signal in it."""
    return f"""
    SELECT room, group_id, run, group_name, view, nth, {m.each("bit_or(self#) AS installed#")},
           {m.each("bit_or(IF(signals > 0, self#, 0)) AS signalled#")}
    FROM audit_stays GROUP BY room, group_id, run, group_name, view, nth
    """
