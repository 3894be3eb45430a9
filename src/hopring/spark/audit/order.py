"""The order of deliveries at one process: 2.11, 2.12 and 2.13(2)."""

from hopring.check.evs import order
from hopring.spark.audit.masks import Masks
from hopring.spark.audit.property import Property


def fifo_order(_m: Masks) -> str:
    """2.11: a FIFO message (or better) comes after each earlier message of its session that comes at all."""
    return """
    SELECT run, process, came_late AS position FROM audit_fifo WHERE came_late IS NOT NULL
    UNION ALL
    SELECT /*+ BROADCAST(f) */ f.run, f.process, d.position
    FROM audit_fifo f
         JOIN audit_deliveries d ON d.stay_id = f.id AND d.session = f.session AND d.sent_at = f.oldest
    WHERE f.oldest < f.carried
    """


def causal_order(_m: Masks) -> str:
    """2.12: the stamp of a send is above those of all its sender had sent or delivered before."""
    return """
    SELECT run, process, sent_below AS position FROM audit_courses WHERE sent_below IS NOT NULL
    UNION ALL
    SELECT /*+ BROADCAST(c) */ c.run, c.process, s.position
    FROM audit_courses c JOIN audit_posts s ON s.stay_id = c.id AND s.place = c.lowest_sent
    WHERE c.lowest_sent <= c.carried
    """


def agreed_order(_m: Masks) -> str:
    """2.13(2): no message of any reliable service after an agreed one with a higher stamp."""
    return """
    SELECT run, process, came_late AS position FROM audit_courses WHERE came_late IS NOT NULL
    UNION ALL
    SELECT /*+ BROADCAST(c) */ c.run, c.process, d.position
    FROM audit_courses c JOIN audit_deliveries d ON d.stay_id = c.id AND d.place = c.lowest_delivered
    WHERE c.lowest_delivered < c.carried_agreed
    """


PROPERTIES = (
    Property(
        order.FIFO,
        "2.11",
        fifo_order,
        "{event}, after a FIFO or agreed message that the same session sent later",
        per_session=True,
    ),
    Property(
        order.CAUSAL,
        "2.12",
        causal_order,
        "{event}, with a stamp that is not above all that it had sent or delivered before",
    ),
    Property(order.AGREED, "2.13(2)", agreed_order, "{event}, after an agreed message with a higher stamp"),
)
