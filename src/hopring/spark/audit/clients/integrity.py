"""Each delivery for itself: 2.5, 2.6, and the view it belongs to, 2.18 and 2.19 (with 2.9)."""

from hopring.check.evs import integrity
from hopring.check.evs_c.words import EVS_C
from hopring.check.properties.sql import TOTAL
from hopring.spark.audit.masks import Masks
from hopring.spark.audit.property import Property


def no_duplication(_m: Masks) -> str:
    """2.5: a session gets a message at most once, through however many groups.

    More deliveries in a group than sessions that have it means that one has it twice. Who has nothing to do
    with a group is not counted there, and looked at by itself.
    """
    return """
    SELECT s.run, s.process, d.position, d.before
    FROM (SELECT /*+ BROADCAST(k) */ d.session_id, d.key, max(d.position) AS position, min(d.position) AS before
          FROM audit_deliveries d JOIN (
               SELECT DISTINCT key FROM audit_holdings WHERE doubled
               UNION SELECT key FROM audit_deliveries WHERE head AND number IS NULL
                     GROUP BY session_id, key HAVING count(*) > 1) k ON k.key = d.key
          WHERE d.head GROUP BY d.session_id, d.key HAVING count(*) > 1) d
         JOIN audit_sessions s ON s.id = d.session_id
    """


def delivery_integrity(_m: Masks) -> str:
    """2.6: what is delivered was sent, as what it is, to these groups, and by oneself before."""
    return """
    SELECT run, message, 'nobody sent it' AS flaw FROM audit_messages WHERE NOT sent
    UNION ALL
    SELECT run, message, 'it was sent with another service'
    FROM audit_messages WHERE sent AND (low_service <> service OR high_service <> service)
    UNION ALL
    SELECT run, message, 'it was sent to other groups'
    FROM audit_messages WHERE sent AND (low_groups <> groups_hash OR high_groups <> groups_hash)
    UNION ALL
    SELECT x.run, x.message, 'its sender had not sent it yet, and delivered it'
    FROM audit_own o JOIN audit_messages x ON x.key = o.key WHERE o.position < o.sent_at
    """


def sane_view_delivery(m: Masks) -> str:
    """2.19: an agreed message of a member comes in no earlier view than its sender was in when it sent it.

    Behind a signal it holds for senders in its set: what made the view of another one may be lost here.
    """
    return f"""
    SELECT h.run, h.message, h.group_name, h.view, o.view AS other_view
    FROM audit_holdings h JOIN audit_origins o ON o.key = h.key AND o.group_id = h.group_id
         LEFT JOIN audit_stays s
              ON s.room = h.room AND {m.overlap("s.self", "h.late")}
                 AND {m.overlap("o.self", "s.signal_together")}
    WHERE h.service IN {TOTAL} AND h.view < o.view AND ({m.some("h.early")} OR s.id IS NOT NULL)
    """


def same_view_delivery(m: Masks) -> str:
    """2.18: agreed messages that are delivered before the signal are so in one view."""
    return f"""
    SELECT run, message, group_name, min(view) AS view, max(view) AS other_view
    FROM audit_holdings
    WHERE service IN {TOTAL} AND early_rooms > 1 AND {m.some("early")}
    GROUP BY run, message, group_id, group_name HAVING min(view) <> max(view)
    """


PROPERTIES = (
    Property(
        EVS_C + integrity.NO_DUPLICATION,
        "2.5",
        no_duplication,
        "{event}, which it had delivered before (its event {before})",
    ),
    Property(
        EVS_C + integrity.DELIVERY_INTEGRITY, "2.6", delivery_integrity, "{message} was delivered, but {flaw}"
    ),
    Property(
        EVS_C + integrity.SANE_VIEW,
        "2.9, 2.19",
        sane_view_delivery,
        "{message} was delivered in {view}, but it was sent in {other_view}",
    ),
    Property(
        EVS_C + integrity.SAME_VIEW,
        "2.18",
        same_view_delivery,
        "{message} was delivered before the signal in {view} and in {other_view}",
    ),
)
