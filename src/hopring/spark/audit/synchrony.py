"""Those who move together: 2.7 and 2.8.

The first condition of each query is cheap and keeps only messages that some of those who left for the same view
have and others have not; there are none, or few, in a history that keeps the promise.
"""

from hopring.check.evs import synchrony
from hopring.check.properties.sql import RELIABLE, TOTAL
from hopring.spark.audit.masks import Masks
from hopring.spark.audit.property import Property


def virtual_synchrony(m: Masks) -> str:
    """2.7: two that move together have delivered the same set in the view they leave."""
    return f"""
    SELECT /*+ BROADCAST(w) */ h.run, h.message, w.process, w.view, w.after_view,
           array({m.each("w.friends# & ~h.here#")}) AS lacking
    FROM audit_holdings h JOIN audit_ways w ON w.room = h.room
    WHERE h.service IN {RELIABLE} AND {m.beyond("h.installed", "h.here")}
          AND {m.overlap("w.self", "h.here")} AND {m.beyond("w.friends", "h.here")}
    """


def transitional_signals(m: Masks) -> str:
    """2.8: at most one signal in a view, and the same agreed messages on either side of it."""
    return f"""
    SELECT run, process, view, CAST(NULL AS STRING) AS message, '(1) got two signals' AS flaw,
           CAST(NULL AS ARRAY<BIGINT>) AS lacking
    FROM audit_stays WHERE stay > 0 AND signals > 1
    UNION ALL
    SELECT run, process, view, NULL, '(1) got a signal for others than those that its next view came with', NULL
    FROM audit_stays
    WHERE stay > 0 AND signals > 0 AND after_view IS NOT NULL
          AND {m.differ("signal_together", "after_together")}
    UNION ALL
    SELECT w.run, w.process, w.view, NULL, '(2) got a signal, and not so, though moving with it,',
           array({m.each("w.friends# & ~r.signalled#")})
    FROM audit_ways w JOIN audit_rooms r ON r.room = w.room
    WHERE {m.overlap("w.self", "r.signalled")} AND {m.beyond("w.friends", "r.signalled")}
    UNION ALL {_side(m, "early", "before")} UNION ALL {_side(m, "late", "after")}
    """


def _side(m: Masks, side: str, word: str) -> str:
    """Of two that both had a signal, one has it on this side and the other has not."""
    lacking = m.each(f"(w.friends# & h.signalled# & ~h.{side}#) <> 0", " OR ")
    return f"""
    SELECT /*+ BROADCAST(w) */ h.run, w.process, w.view, h.message,
           '(2) delivered it {word} the signal, and not so, though moving with it,' AS flaw,
           array({m.each(f"w.friends# & h.signalled# & ~h.{side}#")}) AS lacking
    FROM audit_holdings h JOIN audit_ways w ON w.room = h.room
    WHERE h.service IN {TOTAL} AND {m.beyond("h.installed", f"h.{side}")} AND {m.some(f"h.{side}")}
          AND {m.overlap("w.self", "h.signalled")} AND {m.overlap("w.self", f"h.{side}")} AND ({lacking})
    """


PROPERTIES = (
    Property(
        synchrony.VIRTUAL_SYNCHRONY,
        "2.7",
        virtual_synchrony,
        "{process} delivered {message} in {view}, and {lacking}, which moved with it to {after_view}, did not",
    ),
    Property(
        synchrony.TRANSITIONAL_SIGNALS,
        "2.8",
        transitional_signals,
        "{message} in {view}: {process} {flaw} {lacking}",
    ),
)
