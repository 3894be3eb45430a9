"""Views and their transitional sets: 2.1 to 2.4, and 2.20."""

from hopring.check.evs import views
from hopring.spark.audit.masks import Masks
from hopring.spark.audit.property import Property


def initial_view(_m: Masks) -> str:
    """2.1: nothing is delivered and nothing signalled before the first view."""
    return """
    SELECT h.run, s.process, d.position
    FROM audit_holdings h JOIN audit_deliveries d ON d.place = h.place AND d.room = h.room
         JOIN audit_stays s ON s.id = d.stay_id
    WHERE h.view IS NULL AND h.misplaced AND d.misplaced
    UNION ALL
    SELECT run, process, cut FROM audit_stays WHERE stay = 0 AND signals > 0
    """


def self_inclusion(m: Masks) -> str:
    """2.2: who installs a view is in it."""
    return f"""
    SELECT run, process, begins AS position, view
    FROM audit_stays WHERE stay > 0 AND {m.beyond("self", "members")}
    """


def local_monotonicity(_m: Masks) -> str:
    """2.3: a process installs views with rising ids."""
    return """
    SELECT run, process, begins AS position, view, before_view
    FROM audit_stays WHERE stay > 1 AND view <= before_view
    """


def membership_agreement(m: Masks) -> str:
    """2.20: one id, one set of members."""
    return f"""
    SELECT run, view, min(process) AS process, max(process) AS other
    FROM audit_stays WHERE stay > 0 GROUP BY run, view HAVING {m.unlike("members")}
    """


def transitional_set(m: Masks) -> str:
    """2.4: who came along, the same for all who came along; (1) with {self} in place of the empty set."""
    return f"""
    SELECT run, process, begins AS position, view, '(1) and it is its first view' AS flaw
    FROM audit_stays WHERE stay = 1 AND {m.differ("together", "self")}
    UNION ALL
    SELECT run, process, begins, view, '(2) and somebody in its transitional set is not in both views'
    FROM audit_stays
    WHERE stay > 1 AND ({m.beyond("together", "members")} OR {m.beyond("together", "before_members")})
    UNION ALL
    SELECT run, process, begins, view, '(3) and its transitional set leaves itself out'
    FROM audit_stays WHERE stay > 1 AND {m.beyond("self", "together")}
    UNION ALL
    SELECT run, process, begins, view,
           '(3) and its transitional set is not that of those who came from the same view'
    FROM ({_with_companions(m)}) WHERE {_wrong_companions(m)}
    UNION ALL
    SELECT run, min(process), min_by(begins, process), view,
           '(4) and another that came from the same view has another transitional set'
    FROM audit_stays WHERE stay > 1 AND nth = 1 GROUP BY run, view, before_view HAVING {m.unlike("together")}
    """


def _with_companions(m: Masks) -> str:
    """Who installed the view, and who of them came from the same one."""
    return f"""
    SELECT run, process, begins, view, {m.columns("together")},
           {m.each("bit_or(self#) OVER (PARTITION BY room) AS installed#")},
           {m.each(f"IF(stay = 1, self#, {_FROM_HERE}) AS companions#")}
    FROM audit_stays WHERE stay > 0 AND nth = 1
    """


_FROM_HERE = "bit_or(self#) OVER (PARTITION BY room, before_view)"


def _wrong_companions(m: Masks) -> str:
    return f"({m.each('(together# & installed#) <> companions#', ' OR ')})"


PROPERTIES = (
    Property(views.INITIAL_VIEW, "2.1", initial_view, "{event} comes before its first view"),
    Property(views.SELF_INCLUSION, "2.2", self_inclusion, "{event}, which it is not in"),
    Property(views.LOCAL_MONOTONICITY, "2.3", local_monotonicity, "{event} after {before_view}"),
    Property(
        views.MEMBERSHIP_AGREEMENT,
        "2.20",
        membership_agreement,
        "those who installed {view}, as {process} and {other}, do not all have the same members in it",
    ),
    Property(views.TRANSITIONAL_SET, "2.4", transitional_set, "{event}, {flaw}"),
)
