"""The order of deliveries at one session, over all its groups: 2.11, 2.12 and 2.13(2)."""

from hopring.check.evs import order
from hopring.check.evs_c.words import EVS_C
from hopring.check.properties.sql import FIFO, RELIABLE, TOTAL
from hopring.spark.audit.masks import Masks
from hopring.spark.audit.property import Property


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
"""Where a FIFO message may have been overtaken: by stamps, or if a sender's stamps do not rise as its sends do.

Elsewhere the order of a sender's stamps is that of its sends, and what comes in the one comes in the other.
"""


def missteps(hint: str, suspects: bool) -> str:
    """Whatever came too late; only suspects are gone through for 2.11."""
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


def fifo_order(_m: Masks) -> str:
    """2.11: a FIFO message (or better) comes after each earlier one of its session, of whatever group."""
    return _of("fifo")


def causal_order(_m: Masks) -> str:
    """2.12: the stamp of a send is above those of all that its session had sent or got before."""
    return _of("causal")


def agreed_order(_m: Masks) -> str:
    """2.13(2): after an agreed message nothing reliable with a lower stamp, of whatever group."""
    return _of("agreed")


def _of(name: str) -> str:
    return f"SELECT run, process, position FROM audit_missteps WHERE order = '{name}'"


PROPERTIES = (
    Property(
        EVS_C + order.FIFO,
        "2.11",
        fifo_order,
        "{event}, after a FIFO or agreed message that the same session sent later",
    ),
    Property(
        EVS_C + order.CAUSAL,
        "2.12",
        causal_order,
        "{event}, with a stamp that is not above all that it had sent or delivered before",
    ),
    Property(
        EVS_C + order.AGREED, "2.13(2)", agreed_order, "{event}, after an agreed message with a higher stamp"
    ),
)
