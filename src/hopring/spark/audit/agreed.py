"""What must come along with an agreed message, and who must have a safe one: 2.13(3), 2.13(4), 2.14."""

from hopring.check.evs import agreed, safe
from hopring.check.properties.sql import RELIABLE, STABLE
from hopring.spark.audit.masks import Masks
from hopring.spark.audit.property import Property


def agreed_before_signal(m: Masks) -> str:
    """2.13(3): who delivers an agreed message before the signal delivers all that anyone did below it there."""
    return f"""
    SELECT /*+ BROADCAST(c), BROADCAST(s) */ h.run, c.process, h.message, h.view
    FROM audit_holdings h JOIN audit_tops c ON c.room = h.room JOIN audit_stays s ON s.id = c.id
    WHERE h.nth = 1 AND h.service IN {RELIABLE} AND {m.beyond("h.installed", "h.got")}
          AND h.place < c.agreed_early AND {m.beyond("s.self", "h.got")}
    """


def agreed_after_signal(m: Masks) -> str:
    """2.13(4): after the signal the same, for messages of those that come along to the next view."""
    return f"""
    SELECT /*+ BROADCAST(c), BROADCAST(s) */ h.run, c.process, h.message, h.view
    FROM audit_holdings h JOIN audit_tops c ON c.room = h.room JOIN audit_stays s ON s.id = c.id
    WHERE h.nth = 1 AND h.service IN {RELIABLE} AND {m.beyond("h.installed", "h.got")}
          AND s.after_view IS NOT NULL AND h.place < c.agreed_late AND {m.beyond("s.self", "h.got")}
          AND {m.overlap("h.sender", "s.after_together")}
    """


def _safe(m: Masks, side: str, behind: str) -> str:
    """A promise in a view to the same processes is one promise, whoever said it."""
    return f"""
    SELECT /*+ BROADCAST(o) */ h.run, h.message, h.view,
           array({m.each("o.owed# & ~(h.installed# & (h.got# | h.ended#))")}) AS lacking
    FROM audit_holdings h JOIN audit_owed o ON o.room = h.room AND {behind} o.behind
    WHERE h.nth = 1 AND h.service IN {STABLE} AND h.view IS NOT NULL AND {m.overlap(f"h.{side}", "o.said_by")}
          AND ({m.beyond("o.owed", "h.installed")} OR {m.beyond("o.owed", "h.got", "h.ended")})
    """


def safe_before_signal(m: Masks) -> str:
    """2.14(2): what one delivers as safe before the signal, all members deliver or crash in the view."""
    return _safe(m, "early", "NOT")


def safe_after_signal(m: Masks) -> str:
    """2.14(3): after the signal, all in the next view's transitional set do, even if they never got there."""
    return _safe(m, "late", "")


_SKIPPED = "{process} delivered an agreed message in {view} and never {message}, which has a lower stamp"

PROPERTIES = (
    Property(agreed.AGREED_REGULAR, "2.13(3)", agreed_before_signal, _SKIPPED),
    Property(agreed.AGREED_TRANSITIONAL, "2.13(4)", agreed_after_signal, f"after the signal {_SKIPPED}"),
    Property(
        safe.SAFE_REGULAR,
        "2.14(2)",
        safe_before_signal,
        "{message} was delivered as safe in {view}, and {lacking} of its members neither delivered it nor"
        " ended there",
    ),
    Property(
        safe.SAFE_TRANSITIONAL,
        "2.14(3)",
        safe_after_signal,
        "{message} was delivered as safe after the signal in {view}, and {lacking} of those to come along"
        " neither delivered it nor ended there",
    ),
)
