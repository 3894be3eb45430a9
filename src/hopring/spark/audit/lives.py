"""Who lived, in which views, with whom: the small tables that everything else is joined with.

A *stay* is one process's time in one view, numbered from 1 in each life; stay 0 is the time before the first
view. A view that a process installs a second time is another room, for which `nth` is above 1: sets of
processes in a view are those of `nth` 1, as the plain checker has them.
"""

from hopring.spark.audit.masks import Masks

SMALL = """
SELECT run, process, daemon, position, kind, view, members, transitional_set, cause, file, row
FROM audit_trace WHERE kind IN ('recover', 'crash', 'view', 'transitional')
"""

PEOPLE = """
WITH named AS (
  SELECT run, process FROM audit_extent
  UNION SELECT run, explode(members) FROM audit_small WHERE kind = 'view'
  UNION SELECT run, explode(transitional_set) FROM audit_small WHERE kind IN ('view', 'transitional'))
SELECT run, process, row_number() OVER (PARTITION BY run ORDER BY process) - 1 AS number FROM named
"""


def lives(m: Masks) -> str:
    """One row per process that did something; the starts of a daemon in their order."""
    return f"""
    WITH marks AS (
      SELECT run, process, min(CASE WHEN position = 0 THEN struct(file, row) END) AS seen,
             bool_or(kind = 'crash') AS crashed
      FROM audit_small GROUP BY run, process),
    ordered AS (
      SELECT e.run, e.process, e.daemon, e.high, p.number, coalesce(k.crashed, false) AS crashed,
             row_number() OVER (PARTITION BY e.run, e.daemon ORDER BY k.seen, e.process) AS start,
             count(*) OVER (PARTITION BY e.run, e.daemon) AS starts
      FROM audit_extent e JOIN audit_people p ON p.run = e.run AND p.process = e.process
           LEFT JOIN marks k ON k.run = e.run AND k.process = e.process)
    SELECT o.run, o.process, daemon, high, number, start, starts, crashed OR start < starts AS crashed,
           quiet AND NOT (crashed OR start < starts) AS alive, {m.each(f"{m.bit('number')} AS self#")}
    FROM ordered o JOIN audit_ends e ON e.run = o.run
    """


def stays(m: Masks) -> str:
    """One row per stay, with its neighbours, its sets, and its signals."""
    return f"""
    WITH rooms AS (
      SELECT run, process, position AS begins, view, members, transitional_set AS together,
             row_number() OVER (PARTITION BY run, process ORDER BY position) AS stay,
             row_number() OVER (PARTITION BY run, process, view ORDER BY position) AS nth
      FROM audit_small WHERE kind = 'view'
      UNION ALL SELECT run, process, -1, NULL, array(), array(), 0, 1 FROM audit_lives),
    sets AS (
      SELECT r.run, r.process, r.stay, {m.each("bit_or(IF(r.whole, p.self#, 0)) AS members#")},
             {m.each("bit_or(IF(r.whole, 0, p.self#)) AS together#")}
      FROM (SELECT run, process, stay, true AS whole, explode(members) AS named FROM rooms
            UNION ALL SELECT run, process, stay, false, explode(together) FROM rooms) r
           JOIN (SELECT run, process, {m.each(f"{m.bit('number')} AS self#")} FROM audit_people) p
           ON p.run = r.run AND p.process = r.named
      GROUP BY r.run, r.process, r.stay),
    whole AS (
      SELECT r.run, r.process, r.stay, r.nth, r.view, r.begins,
             {m.each("coalesce(s.members#, 0) AS members#")}, {m.each("coalesce(s.together#, 0) AS together#")}
      FROM rooms r LEFT JOIN sets s ON s.run = r.run AND s.process = r.process AND s.stay = r.stay),
    linked AS (
      SELECT *, coalesce(lead(begins) OVER life, 9223372036854775807) AS ends,
             lag(view) OVER life AS before_view, lead(view) OVER life AS after_view,
             {m.each("coalesce(lag(members#) OVER life, 0) AS before_members#")},
             {m.each("coalesce(lead(together#) OVER life, 0) AS after_together#")}
      FROM whole WINDOW life AS (PARTITION BY run, process ORDER BY stay)),
    signals AS ({signals_of("linked", m)})
    SELECT row_number() OVER (ORDER BY r.run, r.process, r.stay) AS id,
           dense_rank() OVER (ORDER BY r.run, r.view, r.nth) AS room,
           r.*, l.number, l.daemon, l.alive, {m.columns("l.self")}, s.cut, coalesce(s.signals, 0) AS signals,
           s.misplaced_signal, {m.each("coalesce(s.signal_together#, 0) AS signal_together#")},
           r.stay > 0 AND r.after_view IS NULL AND NOT l.alive AS ended
    FROM linked r JOIN audit_lives l ON l.run = r.run AND l.process = r.process
         LEFT JOIN signals s ON s.run = r.run AND s.process = r.process AND s.stay = r.stay
    """


def signals_of(stays_table: str, m: Masks) -> str:
    """By stay: where its first signal is and for whom, how many there are, and one that names another view."""
    return f"""
    WITH named AS (
      SELECT s.run, s.process, s.position, s.view, explode_outer(s.transitional_set) AS who
      FROM audit_small s WHERE kind = 'transitional'),
    sets AS (
      SELECT n.run, n.process, n.position, n.view, {m.each("bit_or(coalesce(p.self#, 0)) AS set#")}
      FROM named n LEFT JOIN (SELECT run, process, {m.each(f"{m.bit('number')} AS self#")} FROM audit_people) p
           ON p.run = n.run AND p.process = n.who
      GROUP BY n.run, n.process, n.position, n.view)
    SELECT r.run, r.process, r.stay, min(g.position) AS cut, count(*) AS signals,
           min(CASE WHEN NOT (g.view <=> r.view) THEN g.position END) AS misplaced_signal,
           {m.each("min_by(g.set#, g.position) AS signal_together#")}
    FROM sets g JOIN {stays_table} r
         ON r.run = g.run AND r.process = g.process AND g.position > r.begins AND g.position < r.ends
    GROUP BY r.run, r.process, r.stay
    """


def rooms(m: Masks) -> str:
    """One row per view: who installed it, who ended in it, who had a signal in it."""
    return f"""
    SELECT room, run, view, nth, {m.each("bit_or(self#) AS installed#")},
           {m.each("bit_or(IF(ended, self#, 0)) AS ended#")},
           {m.each("bit_or(IF(signals > 0, self#, 0)) AS signalled#")}
    FROM audit_stays WHERE stay > 0 GROUP BY room, run, view, nth
    """


def ways(m: Masks) -> str:
    """Those who left one view for the same next one, each with whom it moves together with."""
    return f"""
    SELECT one.id, one.room, one.run, one.process, one.view, one.after_view, {m.columns("one.self")},
           {m.each("bit_or(other.self#) AS way#")},
           {m.each(f"bit_or(IF({_together(m)}, other.self#, 0)) AS friends#")}
    FROM audit_stays one JOIN audit_stays other ON other.room = one.room AND other.after_view = one.after_view
    WHERE one.stay > 0 AND one.nth = 1
    GROUP BY one.id, one.room, one.run, one.process, one.view, one.after_view, {m.columns("one.self")}
    """


def _together(m: Masks) -> str:
    """2.7's words: one is in the transitional set of the other."""
    return f"{m.overlap('one.after_together', 'other.self')} OR {m.overlap('other.after_together', 'one.self')}"
