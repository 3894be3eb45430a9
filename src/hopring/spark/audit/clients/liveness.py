"""What must happen in the end: 2.15 to 2.17, and that what a session asks for is carried out."""

from hopring.check.evs import liveness
from hopring.check.evs_c.liveness import REQUESTS
from hopring.check.evs_c.words import EVS_C
from hopring.check.properties.sql import LOOSE, RELIABLE
from hopring.spark.audit.masks import Masks
from hopring.spark.audit.property import Property


def requests(_m: Masks) -> str:
    """Whose daemon is there in the end has been shown a view for each join, each leave, and its own end."""
    return """
    WITH events AS (
      SELECT run, process, group_name, kind FROM audit_small WHERE kind IN ('join', 'leave', 'left')
      UNION ALL
      SELECT run, process, group_name, 'began' FROM audit_stays WHERE before_view IS NULL),
    counts AS (
      SELECT run, process, group_name, count_if(kind = 'join') AS joins, count_if(kind = 'began') AS began,
             count_if(kind = 'leave') AS leaves, count_if(kind = 'left') AS lefts
      FROM events GROUP BY run, process, group_name)
    SELECT run, process, 'disconnected, and never ended' AS flaw
    FROM audit_sessions WHERE NOT crashed AND asked_end IS NOT NULL AND gone_at IS NULL
    UNION ALL
    SELECT run, process, 'ended, and never disconnected'
    FROM audit_sessions WHERE NOT crashed AND asked_end IS NULL AND gone_at IS NOT NULL
    UNION ALL
    SELECT c.run, c.process, format_string(
           'asked %d times to join %s and came to be in it %d times, to leave it %d times and left it %d times',
           c.joins, c.group_name, c.began, c.leaves, c.lefts)
    FROM counts c JOIN audit_sessions s ON s.run = c.run AND s.process = c.process
    WHERE NOT s.crashed AND s.asked_end IS NULL AND (c.joins <> c.began OR c.leaves <> c.lefts)
    """


def self_delivery(_m: Masks) -> str:
    """2.15: who wants to be in a group, sends to it and never leaves it gets its message, in any view."""
    return f"""
    WITH owed AS (
      SELECT key, session_id, position FROM audit_posts WHERE staying AND service IN {RELIABLE} AND NOT discard
      UNION ALL
      SELECT e.key, e.session_id, e.position
      FROM audit_sends e JOIN audit_sessions s ON s.id = e.session_id
      WHERE e.service IN {RELIABLE} AND NOT e.discard AND array_contains(e.groups, s.private_group))
    SELECT s.run, s.process, w.position
    FROM owed w JOIN audit_sessions s ON s.id = w.session_id AND s.alive
         LEFT JOIN audit_own o ON o.session_id = w.session_id AND o.key = w.key
    WHERE o.key IS NULL OR o.service IN {LOOSE}
    """


def termination(m: Masks) -> str:
    """2.17: what is sent by a member, or got by one, in the view it is in at the end, all its members get."""
    return f"""
    SELECT /*+ BROADCAST(o) */ h.run, h.message, h.group_name, h.view, h.group_id,
           array({m.each("o.owed# & ~h.got#")}) AS lacking
    FROM audit_holdings h JOIN audit_owed o ON o.room = h.room AND o.kind = 'lasting'
    WHERE h.service IN {RELIABLE} AND {m.overlap("o.said_by", "h.here")} AND {m.beyond("o.owed", "h.got")}
    UNION ALL
    SELECT p.run, p.message, s.group_name, s.view, p.group_id,
           array({m.each("s.members# & ~coalesce(h.got#, 0)")})
    FROM audit_posts p JOIN audit_stays s ON s.id = p.stay_id AND s.after_view IS NULL AND NOT s.ended
         LEFT JOIN audit_holdings h ON h.key = p.key AND h.group_id = p.group_id
         LEFT JOIN audit_reach r ON r.key = p.key
    WHERE p.service IN {RELIABLE} AND IF(r.key IS NULL, NOT p.discard OR {m.count("s.members")} > 1,
                               {m.each("(s.members# & ~coalesce(h.got#, 0)) <> 0", " OR ")})
    """


def membership_precision(m: Masks) -> str:
    """2.16: in each component all end in the same view of a group, which has exactly who wants to be in it."""
    return f"""
    WITH ended AS (
      SELECT w.*, {m.each("bit_or(w.self#) OVER wanting AS wanting#")}, min(w.view) OVER wanting AS meeting
      FROM audit_wishes w JOIN audit_components c ON c.run = w.run AND c.daemon = w.daemon
      WINDOW wanting AS (PARTITION BY c.run, c.component, w.group_id))
    SELECT run, group_name, process, CASE
             WHEN view IS NULL THEN 'was never shown one'
             WHEN leaves THEN 'had left'
             WHEN view <> meeting THEN 'was in another one'
             ELSE 'was in one with other members' END AS flaw
    FROM ended WHERE view IS NULL OR leaves OR view <> meeting OR {m.differ("members", "wanting")}
    """


PROPERTIES = (
    Property(EVS_C + REQUESTS, "ours", requests, "{process} {flaw}", when_quiet=True),
    Property(
        EVS_C + liveness.SELF_DELIVERY,
        "2.15",
        self_delivery,
        "{event}, and it never delivered that",
        when_quiet=True,
    ),
    Property(
        EVS_C + liveness.TERMINATION,
        "2.17",
        termination,
        "{message} is of {view}, which somebody stayed in, and {lacking} of its members never delivered it",
        when_quiet=True,
    ),
    Property(
        EVS_C + liveness.MEMBERSHIP_PRECISION,
        "2.16",
        membership_precision,
        "at the end {process} should have been in a view of {group_name} with all who want to, and it {flaw}",
        when_quiet=True,
        with_components=True,
    ),
)
