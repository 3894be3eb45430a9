"""Each delivery for itself: 2.5, 2.6, and the view it belongs to, 2.18 and 2.19 (with 2.9)."""

from hopring.check.evs import integrity
from hopring.spark.audit.holdings import marked
from hopring.spark.audit.masks import Masks
from hopring.spark.audit.messages import Odd
from hopring.spark.audit.property import Property


def no_duplication(_m: Masks) -> str:
    """2.5: more deliveries than processes that have it means that one has it twice."""
    return """
    SELECT /*+ BROADCAST(h) */ h.run, s.process, max(d.position) AS position, min(d.position) AS before
    FROM (SELECT DISTINCT run, place FROM audit_holdings WHERE twice) h
         JOIN audit_deliveries d ON d.place = h.place JOIN audit_stays s ON s.id = d.stay_id
    GROUP BY h.run, s.process, h.place HAVING count(*) > 1
    """


def delivery_integrity(m: Masks) -> str:
    """2.6: what is delivered was sent, by a member of the view, as what it is, and by oneself before."""
    return f"""
    SELECT run, message, view, 'nobody sent it' AS flaw FROM audit_holdings WHERE not_sent
    UNION ALL
    SELECT run, message, view, 'it was sent with another service'
    FROM audit_holdings WHERE other_service AND NOT not_sent
    UNION ALL
    SELECT run, message, view, 'its sender had not sent it yet, and delivered it'
    FROM audit_holdings WHERE too_early
    UNION ALL
    SELECT /*+ BROADCAST(o) */ h.run, h.message, h.view, 'its sender is not in that view'
    FROM audit_holdings h JOIN audit_owed o ON o.room = h.room AND NOT o.behind
    WHERE h.view IS NOT NULL AND NOT {m.overlap("h.sender", "o.owed")} AND {m.overlap("h.here", "o.said_by")}
    """


def same_view_delivery(_m: Masks) -> str:
    """2.18: all who deliver a message do so in the same view."""
    return """
    SELECT m.run, m.message, v.view, v.other_view
    FROM (SELECT a.place, min(r.view) AS view, max(r.view) AS other_view
          FROM audit_apart a JOIN audit_rooms r ON r.room = a.room
          GROUP BY a.place HAVING min(r.view) <> max(r.view)) v
         JOIN audit_named m ON m.place = v.place
    """


def sane_view_delivery(_m: Masks) -> str:
    """2.19 and 2.9: (1) in the view of the stamp; (2) not once the sender's daemon has started again."""
    return f"""
    SELECT run, message, view, sent_view AS other_view, '(1) it was stamped in' AS flaw
    FROM audit_holdings WHERE elsewhere
    UNION ALL
    SELECT run, message, view, stay_view, '(1) its sender sent it in'
    FROM audit_odd WHERE {marked(Odd.VIEW, "odd")}
    UNION ALL
    SELECT /*+ BROADCAST(b) */ h.run, h.message, h.view, b.bound, '(2) its daemon had started again in'
    FROM audit_holdings h JOIN (
      SELECT l.run, l.process, min(s.view) OVER (PARTITION BY l.run, l.daemon ORDER BY l.start
             ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS bound
      FROM audit_lives l JOIN audit_ends e ON e.run = l.run AND e.counters_survive
           LEFT JOIN audit_stays s ON s.run = l.run AND s.process = l.process AND s.stay = 1) b
         ON b.run = h.run AND b.process = h.sender
    WHERE h.view >= b.bound
    """


PROPERTIES = (
    Property(
        integrity.NO_DUPLICATION,
        "2.5",
        no_duplication,
        "{event}, which it had delivered before (its event {before})",
    ),
    Property(
        integrity.DELIVERY_INTEGRITY, "2.6", delivery_integrity, "{message} was delivered in {view}, but {flaw}"
    ),
    Property(
        integrity.SANE_VIEW,
        "2.9, 2.19",
        sane_view_delivery,
        "{message} was delivered in {view}, but {flaw} {other_view}",
    ),
)

SAME_VIEW = Property(
    integrity.SAME_VIEW,
    "2.18",
    same_view_delivery,
    "{message} was delivered in {view} and in {other_view}",
)
