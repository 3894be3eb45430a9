"""What must happen in the end: 2.15, 2.16 and 2.17. Only the end of a quiet run can show that it did not."""

from hopring.check.evs import liveness
from hopring.check.properties.sql import LOOSE, RELIABLE
from hopring.spark.audit.masks import Masks
from hopring.spark.audit.property import Property


def self_delivery(m: Masks) -> str:
    """2.15: who is still there at the quiet end has delivered all it sent."""
    return f"""
    SELECT h.run, h.process, s.position
    FROM audit_posts s JOIN audit_stays h ON h.id = s.stay_id
         JOIN audit_lives l ON l.run = h.run AND l.process = h.process AND l.alive
         LEFT JOIN audit_reach r ON r.place = s.place
    WHERE s.service IN {RELIABLE} AND (r.place IS NULL OR r.service IN {LOOSE} OR {m.beyond("l.self", "r.got")})
    """


def termination(m: Masks) -> str:
    """2.17: what is sent in a view that its sender never leaves, every member of the view delivers."""
    return f"""
    SELECT l.run, l.process, s.position, l.view,
           array({m.each("l.members# & ~coalesce(r.got#, 0)")}) AS lacking
    FROM audit_posts s JOIN audit_doors h ON h.id = s.stay_id
         JOIN audit_doors l ON l.life = h.life AND l.view_key = s.view_key
         LEFT JOIN audit_reach r ON r.place = s.place
    WHERE l.stay > 0 AND l.after_view IS NULL AND l.alive AND s.service IN {RELIABLE} AND {m.some("l.members")}
          AND (r.place IS NULL OR r.service IN {LOOSE} OR {m.beyond("l.members", "r.got")})
    """


def membership_precision(m: Masks) -> str:
    """2.16: after the heal, the daemons of each component end in one view of exactly these daemons."""
    return f"""
    WITH last AS (
      SELECT c.run, c.component, c.daemon, l.process, l.crashed, s.stay, s.view,
             {m.each("coalesce(s.members#, 0) AS members#")},
             {m.each("bit_or(coalesce(l.self#, 0)) OVER (PARTITION BY c.run, c.component) AS daemons#")},
             min(s.view) OVER (PARTITION BY c.run, c.component) AS meeting
      FROM audit_components c
           LEFT JOIN audit_lives l ON l.run = c.run AND l.daemon = c.daemon AND l.start = l.starts
           LEFT JOIN audit_stays s ON s.run = l.run AND s.process = l.process AND s.after_view IS NULL)
    SELECT run, daemon, CASE
             WHEN process IS NULL THEN 'did nothing at all'
             WHEN crashed THEN 'had crashed'
             WHEN stay = 0 THEN 'never installed one'
             WHEN view <> meeting THEN 'was in another one'
             ELSE 'was in one with other members' END AS flaw
    FROM last
    WHERE process IS NULL OR crashed OR stay = 0 OR view <> meeting OR {m.differ("members", "daemons")}
    """


PROPERTIES = (
    Property(
        liveness.SELF_DELIVERY,
        "2.15",
        self_delivery,
        "{event}, and it never delivered that",
        when_quiet=True,
    ),
    Property(
        liveness.TERMINATION,
        "2.17",
        termination,
        "{event} in {view} and stayed there, but {lacking} of its members never delivered that",
        when_quiet=True,
    ),
    Property(
        liveness.MEMBERSHIP_PRECISION,
        "2.16",
        membership_precision,
        "at the end {daemon} should have been in a view with all that it could reach, and it {flaw}",
        with_components=True,
    ),
)
