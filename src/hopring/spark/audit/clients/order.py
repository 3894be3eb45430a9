"""The order of deliveries at one session, over all its groups: 2.11, 2.12 and 2.13(2)."""

from hopring.check.evs import order
from hopring.check.evs_c.words import EVS_C
from hopring.spark.audit.masks import Masks
from hopring.spark.audit.property import Property


def missteps(hint: str) -> str:
    """Whatever came too late: one pass over each session in its order, one over what it got of each sender.

    A running maximum is enough: as long as nothing is wrong, what came last is the highest.
    """
    return f"""
    WITH steps AS (
      SELECT {hint} d.session_id, d.position, false AS sending, m.place, m.service
      FROM audit_deliveries d JOIN audit_order m ON m.key = d.key WHERE d.head AND m.service > 1
      UNION ALL
      SELECT {hint} s.session_id, s.position, true, m.place, s.service
      FROM audit_sends s JOIN audit_order m ON m.key = s.key WHERE s.service > 1),
    passed AS (
      SELECT *, max(place) OVER earlier AS top,
             max(IF(NOT sending AND service >= 4, place, NULL)) OVER earlier AS top_agreed
      FROM steps
      WINDOW earlier AS (PARTITION BY session_id ORDER BY position
                         ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)),
    turns AS (
      SELECT {hint} d.session_id, d.position, m.turn,
             max(IF(m.service >= 3, m.turn, NULL)) OVER (
                 PARTITION BY d.session_id, m.session ORDER BY d.position
                 ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS latest
      FROM audit_deliveries d JOIN audit_order m ON m.key = d.key WHERE d.head AND m.service > 1 AND m.sent),
    found AS (
      SELECT session_id, position, 'causal' AS order, false AS agreed FROM passed WHERE sending AND place <= top
      UNION ALL
      SELECT session_id, position, 'agreed', service >= 4 FROM passed WHERE NOT sending AND place < top_agreed
      UNION ALL
      SELECT session_id, position, 'fifo', false FROM turns WHERE turn < latest)
    SELECT /*+ BROADCAST(s) */ s.run, s.process, f.* FROM found f JOIN audit_sessions s ON s.id = f.session_id
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
