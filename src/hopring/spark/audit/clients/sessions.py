"""Who was there: sessions, groups, and the sessions of each group by number."""

from typing import Final

from hopring.spark.audit.masks import Masks

SMALL: Final = """
SELECT run, process, daemon, position, kind, view, members, transitional_set, cause, file, row,
       IF(kind = 'connect', try_element_at(groups, 1), group_name) AS group_name
FROM audit_trace WHERE kind NOT IN ('send', 'deliver') OR position = 0
"""
"""All but what was sent and delivered; of that only what should not be a session's first event, and is."""

BORDERS: Final = "SELECT run, process, daemon, kind, file, row FROM audit_daemons"

SESSIONS: Final = """
WITH ended AS (
  SELECT DISTINCT run, process
  FROM (SELECT run, process, kind, row_number() OVER (PARTITION BY run, daemon, kind ORDER BY file, row) AS nth,
               count(*) OVER (PARTITION BY run, daemon, kind) AS starts
        FROM audit_borders)
  WHERE kind = 'crash' OR nth < starts),
marks AS (
  SELECT run, process, min(IF(position = 0, struct(file, row), NULL)) AS seen,
         bool_or(position = 0 AND kind = 'connect') AS connected,
         max_by(group_name, position) FILTER (WHERE kind = 'connect') AS private_group,
         min(IF(kind = 'disconnect', position, NULL)) AS asked_end,
         min(IF(kind = 'gone', position, NULL)) AS gone_at
  FROM audit_small GROUP BY run, process),
known AS (
  SELECT k.*, e.daemon, e.high, q.quiet, x.process IS NOT NULL AS crashed,
         x.process IS NOT NULL OR k.asked_end IS NOT NULL OR k.gone_at IS NOT NULL AS ends
  FROM audit_extent e JOIN marks k ON k.run = e.run AND k.process = e.process
       JOIN audit_ends q ON q.run = e.run
       LEFT JOIN ended x ON x.run = e.run AND x.process = regexp_replace(e.process, '/[0-9]+$', '/0'))
SELECT row_number() OVER (ORDER BY run, seen, process) AS id, run, process, daemon, high, connected,
       private_group, asked_end, gone_at, crashed, ends, quiet AND NOT ends AS alive
FROM known
"""
"""One row per session; ids rise in the order in which the sessions of a history appear in it.

A daemon that starts again had ended, even if in silence, and a session ends with its daemon.
"""

GROUPS: Final = """
SELECT row_number() OVER (ORDER BY run, group_name) AS id, run, group_name
FROM (SELECT DISTINCT run, group_name FROM audit_small WHERE kind = 'view')
"""
"""Those of which anybody was shown a view."""

PEOPLE: Final = """
WITH named AS (
  SELECT run, group_name, process FROM audit_small WHERE kind IN ('view', 'join')
  UNION SELECT run, group_name, explode(members) FROM audit_small WHERE kind = 'view'
  UNION SELECT run, group_name, explode(transitional_set)
        FROM audit_small WHERE kind IN ('view', 'transitional')),
shown AS (SELECT DISTINCT run, group_name, process FROM audit_small WHERE kind = 'view')
SELECT g.id AS group_id, n.run, n.group_name, n.process, s.id AS session_id, coalesce(s.alive, false) AS alive,
       v.process IS NOT NULL AS shown, row_number() OVER (PARTITION BY g.id ORDER BY n.process) - 1 AS number
FROM named n JOIN audit_groups g ON g.run = n.run AND g.group_name = n.group_name
     LEFT JOIN audit_sessions s ON s.run = n.run AND s.process = n.process
     LEFT JOIN shown v ON v.run = n.run AND v.group_name = n.group_name AND v.process = n.process
"""
"""By group: who was shown a view of it (`shown`), asked to be in it, or is named in a set."""


def persons(m: Masks) -> str:
    """The same, each with the set of itself."""
    itself = m.each(f"{m.bit('number')} AS self#")
    return f"(SELECT *, {itself} FROM audit_people)"
