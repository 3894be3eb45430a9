"""Those who move together from one view of a group to the next: 2.7 and 2.8."""

from hopring.check.evs import synchrony
from hopring.check.evs_c.words import EVS_C
from hopring.check.properties.sql import EARLY, TOTAL
from hopring.spark.audit.masks import Masks
from hopring.spark.audit.property import Property


def virtual_synchrony(m: Masks) -> str:
    """2.7: the same agreed messages in the view they leave; the others by the next change of network."""
    return f"""
    SELECT /*+ BROADCAST(o) */ h.run, h.message, h.group_name, h.view, h.group_id,
           '' AS where, array({m.each("o.owed# & ~(h.here# | h.unwanted#)")}) AS lacking
    FROM audit_holdings h JOIN audit_owed o ON o.room = h.room AND o.kind = 'friends'
    WHERE h.service IN {TOTAL} AND h.nth = 1 AND {m.beyond("h.installed", "h.here", "h.unwanted")}
          AND {m.overlap("o.said_by", "h.here")} AND {m.beyond("o.owed", "h.here", "h.unwanted")}
    UNION ALL
    SELECT /*+ BROADCAST(o) */ h.run, h.message, h.group_name, h.view, h.group_id, ' at all',
           array({m.each("o.owed# & ~h.got#")})
    FROM audit_holdings h JOIN audit_owed o ON o.room = h.room AND o.kind = 'early'
    WHERE h.service IN {EARLY} AND {m.overlap("o.said_by", "h.here")} AND {m.beyond("o.owed", "h.got")}
    """


def transitional_signals(m: Masks) -> str:
    """2.8: at most one signal in a view, for nobody who is not told of; the same agreed messages before it."""
    return f"""
    SELECT run, group_name, view, process, CAST(NULL AS STRING) AS message, '(1) got two signals' AS flaw,
           group_id, CAST(NULL AS ARRAY<BIGINT>) AS lacking
    FROM audit_stays WHERE signals > 1
    UNION ALL
    SELECT run, group_name, view, process, NULL, '(1) got a signal that leaves out who came to its next view',
           group_id, array({m.each("after_together# & ~signal_together#")})
    FROM audit_stays
    WHERE signals > 0 AND after_view IS NOT NULL AND {m.beyond("after_together", "signal_together")}
    UNION ALL
    SELECT r.run, r.group_name, r.view, NULL, NULL, '(2) there was a signal, and none for', r.group_id,
           array({m.each("o.owed# & ~r.signalled#")})
    FROM audit_owed o JOIN audit_rooms r ON r.room = o.room
    WHERE o.kind = 'friends' AND r.nth = 1 AND {m.overlap("o.said_by", "r.signalled")}
          AND {m.beyond("o.owed", "r.signalled")}
    UNION ALL
    SELECT /*+ BROADCAST(o) */ h.run, h.group_name, h.view, NULL, h.message,
           '(2) was delivered before the signal, and not so, though moving along, by', h.group_id,
           array({m.each("o.owed# & h.signalled# & ~(h.early# | h.unwanted#)")})
    FROM audit_holdings h JOIN audit_owed o ON o.room = h.room AND o.kind = 'friends'
    WHERE h.service IN {TOTAL} AND h.nth = 1 AND {m.some("h.early")} AND {m.beyond("h.installed", "h.early")}
          AND ({m.each("(o.said_by# & h.early# & h.signalled#) <> 0", " OR ")})
          AND ({m.each("(o.owed# & h.signalled# & ~(h.early# | h.unwanted#)) <> 0", " OR ")})
    """


PROPERTIES = (
    Property(
        EVS_C + synchrony.VIRTUAL_SYNCHRONY,
        "2.7",
        virtual_synchrony,
        "{message} was delivered in {view}, and {lacking}, moving along from there, did not{where}",
    ),
    Property(
        EVS_C + synchrony.TRANSITIONAL_SIGNALS,
        "2.8",
        transitional_signals,
        "in {view}: {process}{message} {flaw} {lacking}",
    ),
)
