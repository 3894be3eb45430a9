"""What comes along with an agreed message, 2.13(3) and 2.13(4), and who else gets a safe one, 2.14."""

from hopring.check.evs import agreed, safe
from hopring.check.evs_c.words import EVS_C
from hopring.check.properties.sql import RELIABLE, STABLE, TOTAL
from hopring.spark.audit.masks import Masks
from hopring.spark.audit.property import Property


def tops(hint: str) -> str:
    """By stay: the highest agreed message before the signal, and behind it."""
    return f"""
    SELECT {hint} d.stay_id, max(IF(d.late, NULL, m.place)) AS early_top,
           max(IF(d.late, m.place, NULL)) AS late_top
    FROM audit_deliveries d JOIN audit_order m ON m.key = d.key
    WHERE d.stay_id IS NOT NULL AND m.service IN {TOTAL} GROUP BY d.stay_id
    """


def agreed_before_signal(m: Masks) -> str:
    """2.13(3): with an agreed message before the signal, all below it that anyone got in this view."""
    return f"{_skipped(m)} AND h.place < t.early_top"


def agreed_after_signal(m: Masks) -> str:
    """2.13(4): after the signal, those from senders that come along."""
    return f"""{_skipped(m)} AND h.place < t.late_top AND s.after_view IS NOT NULL
                AND {m.overlap("h.sender", "s.after_together")}"""


def _skipped(m: Masks) -> str:
    return f"""
    SELECT /*+ BROADCAST(s), BROADCAST(t) */ h.run, s.process, h.message, h.group_name, h.view
    FROM audit_holdings h JOIN audit_stays s ON s.room = h.room JOIN audit_tops t ON t.stay_id = s.id
    WHERE h.nth = 1 AND h.service IN {RELIABLE} AND {m.some("h.here")} AND {m.beyond("h.installed", "h.got")}
          AND {m.beyond("s.self", "h.got")}
    """


def safe_before_signal(m: Masks) -> str:
    """2.14(2): every member of the view gets it or ends; not necessarily in that view."""
    return _safe(m, "early", "members")


def safe_after_signal(m: Masks) -> str:
    """2.14(3): after the signal, all in the next view's transitional set do, even if they never got there."""
    return _safe(m, "late", "behind")


def _safe(m: Masks, side: str, kind: str) -> str:
    return f"""
    SELECT /*+ BROADCAST(o) */ h.run, h.message, h.group_name, h.view, h.group_id,
           array({m.each("o.owed# & ~(h.got# | o.gone#)")}) AS lacking
    FROM audit_holdings h JOIN audit_owed o ON o.room = h.room AND o.kind = '{kind}'
    WHERE h.service IN {STABLE} AND {m.overlap(f"h.{side}", "o.said_by")}
          AND {m.beyond("o.owed", "h.got", "o.gone")}
    """


_SKIPPED = "{process} delivered an agreed message in {view} and never {message}, which has a lower stamp"

PROPERTIES = (
    Property(EVS_C + agreed.AGREED_REGULAR, "2.13(3)", agreed_before_signal, _SKIPPED),
    Property(
        EVS_C + agreed.AGREED_TRANSITIONAL, "2.13(4)", agreed_after_signal, f"after the signal {_SKIPPED}"
    ),
    Property(
        EVS_C + safe.SAFE_REGULAR,
        "2.14(2)",
        safe_before_signal,
        "{message} was delivered as safe in {view}, and {lacking} of its members went on without it",
    ),
    Property(
        EVS_C + safe.SAFE_TRANSITIONAL,
        "2.14(3)",
        safe_after_signal,
        "{message} was delivered as safe after the signal in {view}, and {lacking} of those to come along"
        " went on without it",
    ),
)
