"""Views of groups and their transitional sets: 2.1 to 2.4, and 2.20, as strict as among daemons."""

from hopring.check.evs import views
from hopring.check.evs_c.words import EVS_C
from hopring.spark.audit.masks import Masks
from hopring.spark.audit.property import Property


def initial_view(_m: Masks) -> str:
    """2.1: a message comes through a group that the session is in, or is for it alone; so does a signal."""
    return """
    SELECT s.run, s.process, d.position
    FROM (SELECT session_id, position FROM audit_deliveries WHERE NOT home
          GROUP BY session_id, position HAVING count(*) >= max(ways)) d
         JOIN audit_sessions s ON s.id = d.session_id
    UNION ALL
    SELECT run, process, position FROM audit_strays
    """


def self_inclusion(m: Masks) -> str:
    """2.2: who is shown a view is in it."""
    return f"""
    SELECT run, process, begins AS position FROM audit_stays WHERE {m.beyond("self", "members")}
    """


def local_monotonicity(_m: Masks) -> str:
    """2.3: a session is shown views of a group with rising ids, from one stay in it to the next, too."""
    return """
    SELECT run, process, begins AS position, group_name, earlier_view
    FROM audit_stays WHERE view <= earlier_view
    """


def membership_agreement(m: Masks) -> str:
    """2.20: one id, one set of members; between signal and view too, because ids name the side."""
    return f"""
    SELECT run, group_name, view, min(process) AS process, max(process) AS other
    FROM audit_stays GROUP BY run, group_id, group_name, view HAVING {m.unlike("members")}
    """


def transitional_set(m: Masks) -> str:
    """2.4: who came along, the same for all who came along."""
    return f"""
    SELECT run, process, begins AS position, '(1) and it is its first view' AS flaw
    FROM audit_stays WHERE before_view IS NULL AND {m.differ("together", "self")}
    UNION ALL
    SELECT run, process, begins, '(2) and somebody in its transitional set is not in both views'
    FROM audit_stays WHERE before_view IS NOT NULL
         AND ({m.beyond("together", "members")} OR {m.beyond("together", "before_members")})
    UNION ALL
    SELECT run, process, begins, '(3) and its transitional set leaves itself out'
    FROM audit_stays WHERE before_view IS NOT NULL AND {m.beyond("self", "together")}
    UNION ALL
    SELECT run, process, begins, '(3) and its transitional set is not that of those who came from the same view'
    FROM ({_with_companions(m)}) WHERE {m.each("(together# & installed#) <> companions#", " OR ")}
    UNION ALL
    SELECT run, min(process), min_by(begins, process),
           '(4) and another that came from the same view has another transitional set'
    FROM audit_stays WHERE before_view IS NOT NULL AND nth = 1
    GROUP BY run, room, before_view HAVING {m.unlike("together")}
    """


def _with_companions(m: Masks) -> str:
    """Who was shown the view, and who of them came from the same one."""
    from_here = "bit_or(self#) OVER (PARTITION BY room, before_view)"
    return f"""
    SELECT run, process, begins, {m.columns("together")},
           {m.each("bit_or(self#) OVER (PARTITION BY room) AS installed#")},
           {m.each(f"IF(before_view IS NULL, self#, {from_here}) AS companions#")}
    FROM audit_stays WHERE nth = 1
    """


PROPERTIES = (
    Property(EVS_C + views.INITIAL_VIEW, "2.1", initial_view, "{event}, and was in no group of that"),
    Property(EVS_C + views.SELF_INCLUSION, "2.2", self_inclusion, "{event}, which it is not in"),
    Property(EVS_C + views.LOCAL_MONOTONICITY, "2.3", local_monotonicity, "{event} after {earlier_view}"),
    Property(
        EVS_C + views.MEMBERSHIP_AGREEMENT,
        "2.20",
        membership_agreement,
        "those who were shown {view}, as {process} and {other}, do not all have the same members in it",
    ),
    Property(EVS_C + views.TRANSITIONAL_SET, "2.4", transitional_set, "{event}, {flaw}"),
)
