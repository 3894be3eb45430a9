"""The order of events at each session: one pass over each session in its order, over all its groups."""

from hopring.check.properties.sql import FIFO, RELIABLE, TOTAL


def paces(hint: str) -> str:
    """By session and sender: what came too late, found in one pass over each session in its order.

    A running maximum is enough: as long as nothing is wrong, what came last is the highest. `passed` says that
    something came behind a FIFO message (or better) of any sender that has a higher stamp.
    """
    return f"""
    WITH steps AS (
      SELECT {hint} d.session_id, m.session, d.position, false AS sending, m.place, m.service
      FROM audit_deliveries d JOIN audit_order m ON m.key = d.key WHERE d.head AND m.service IN {RELIABLE}
      UNION ALL
      SELECT {hint} s.session_id, m.session, s.position, true, m.place, s.service
      FROM audit_sends s JOIN audit_order m ON m.key = s.key WHERE s.service IN {RELIABLE}),
    passed AS (
      SELECT *, max(place) OVER earlier AS top,
             max(IF(NOT sending AND service IN {TOTAL}, place, NULL)) OVER earlier AS top_agreed,
             max(IF(NOT sending AND service IN {FIFO}, place, NULL)) OVER earlier AS top_fifo
      FROM steps
      WINDOW earlier AS (PARTITION BY session_id ORDER BY position
                         ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))
    SELECT session_id, session, min(IF(sending AND place <= top, position, NULL)) AS sent_below,
           min(IF(NOT sending AND place < top_agreed, position, NULL)) AS came_late,
           coalesce(bool_or(NOT sending AND service IN {TOTAL} AND place < top_agreed), false) AS unsorted,
           coalesce(bool_or(NOT sending AND place < top_fifo), false) AS passed
    FROM passed GROUP BY session_id, session
    """


SUSPECTS = f"""
SELECT p.session_id, p.session FROM audit_paces p
WHERE p.passed OR p.session IN (
  SELECT session
  FROM (SELECT session, place, max(place) OVER (PARTITION BY session ORDER BY turn
               ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS top
        FROM audit_messages WHERE sent AND service IN {RELIABLE})
  WHERE place <= top)
"""
"""Sessions where a FIFO message may have been overtaken, by stamps or because stamps do not rise with sends.

Elsewhere the order of a sender's stamps is that of its sends, and what comes in the one comes in the other.
"""


def missteps(hint: str, suspects: bool) -> str:
    """Events that came too late; only suspects are gone through for 2.11."""
    return f"""
    WITH found AS (
      SELECT session_id, sent_below AS position, 'causal' AS order, false AS agreed
      FROM audit_paces WHERE sent_below IS NOT NULL
      UNION ALL
      SELECT session_id, came_late, 'agreed', unsorted FROM audit_paces WHERE came_late IS NOT NULL
      {_overtaken(hint) if suspects else ""})
    SELECT s.run, s.process, f.* FROM found f JOIN audit_sessions s ON s.id = f.session_id
    """


def _overtaken(hint: str) -> str:
    return f"""
      UNION ALL
      SELECT session_id, position, 'fifo', false
      FROM (SELECT {hint} d.session_id, d.position, m.turn,
                   max(IF(m.service IN {FIFO}, m.turn, NULL)) OVER (
                     PARTITION BY d.session_id, m.session ORDER BY d.position
                     ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS latest
            FROM audit_deliveries d JOIN audit_order m ON m.key = d.key
                 LEFT SEMI JOIN audit_suspects u ON u.session_id = d.session_id AND u.session = m.session
            WHERE d.head AND m.service IN {RELIABLE} AND m.sent)
      WHERE turn < latest
    """


UNSORTED = "SELECT DISTINCT run FROM audit_missteps WHERE agreed"
"""Histories in which some session does not get agreed messages in the order of their places."""


def tops(hint: str) -> str:
    """By stay: the highest agreed message before the signal, and behind it."""
    return f"""
    SELECT {hint} d.stay_id, d.view_id, max(IF(d.late, NULL, m.place)) AS early_top,
           max(IF(d.late, m.place, NULL)) AS late_top
    FROM audit_deliveries d JOIN audit_order m ON m.key = d.key
    WHERE d.stay_id IS NOT NULL AND m.service IN {TOTAL} GROUP BY d.stay_id, d.view_id
    """
