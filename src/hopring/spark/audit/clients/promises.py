"""What is owed to whom in a view: small tables from which the queries need one look each.

A promise is a room, a kind, the set of those who are owed something, and the set of those on whose account:
what one of these delivered there. Whoever say the same in a view are one row.

`members`   the members of the view
`behind`    those who come along to the next view
`lasting`   the members of a view, on account of who is in it at the end
`friends`   those who move along to the same next view
`early`     those who come along up to the next change of network, and are there at the end without a leave
"""

from hopring.spark.audit.clients.sessions import persons
from hopring.spark.audit.masks import Masks


def friends(m: Masks) -> str:
    """Those who left one view for the same next one, each with whom it moves together with.

    Where all have the same transitional set, that is soon said; only elsewhere are pairs looked at.
    """
    return f"""
    WITH way AS (
      SELECT room, after_view, {m.each("bit_or(self#) AS way#")}, {m.unlike("after_together")} AS odd
      FROM audit_stays WHERE nth = 1 AND after_view IS NOT NULL GROUP BY room, after_view)
    SELECT s.id, {m.each(f"IF({_inside(m)}, w.way#, w.way# & s.after_together#) AS friends#")}
    FROM audit_stays s JOIN way w ON w.room = s.room AND w.after_view = s.after_view
    WHERE s.nth = 1 AND NOT w.odd
    UNION ALL
    SELECT one.id, {m.each(f"bit_or(IF({_together(m)}, other.self#, 0)) AS friends#")}
    FROM audit_stays one JOIN way w ON w.room = one.room AND w.after_view = one.after_view AND w.odd
         JOIN audit_stays other ON other.room = one.room AND other.after_view = one.after_view
    WHERE one.nth = 1 GROUP BY one.id
    """


def _inside(m: Masks) -> str:
    return m.overlap("s.self", "s.after_together")


def _together(m: Masks) -> str:
    """2.7's words: one is in the transitional set of the other."""
    return f"{m.overlap('one.after_together', 'other.self')} OR {m.overlap('other.after_together', 'one.self')}"


def early(m: Masks, stays_max: int) -> str:
    """By stay: who is a companion at a change of network that comes after it, and came along all the way.

    Of one stay it is `here | (along & what it is of the next)`. Two such steps are one such step again, so the
    steps are doubled until they reach over the longest life in a group. Who ever leaves is owed nothing.
    """
    steps = f"""
    SELECT s.id, s.room, s.group_id, s.session_id, s.begins, {m.columns("s.self")},
           {m.each("IF(s.after_cause = 'network', coalesce(f.friends#, 0), 0) AS here#")},
           {m.each("s.after_together# AS along#")}
    FROM audit_stays s LEFT JOIN audit_friends f ON f.id = s.id
    """
    for doubling in range(max(stays_max - 1, 0).bit_length()):
        steps = f"""
        SELECT id, room, group_id, session_id, begins, {m.columns("self")},
               {m.each(f"here# | (along# & coalesce(lead(here#, {1 << doubling}) OVER life, 0)) AS here#")},
               {m.each(f"along# & coalesce(lead(along#, {1 << doubling}) OVER life, 0) AS along#")}
        FROM ({steps}) WINDOW life AS (PARTITION BY group_id, session_id ORDER BY begins)
        """
    return f"""
    WITH steady AS (
      SELECT group_id, {m.each("bit_or(self#) AS steady#")}
      FROM (SELECT group_id, {m.columns("self")} FROM audit_stays
            GROUP BY group_id, session_id, {m.columns("self")} HAVING bool_and(alive) AND NOT bool_or(leaves))
      GROUP BY group_id)
    SELECT e.room, {m.each("e.here# & t.steady# AS owed#")}, {m.columns("e.self")}
    FROM ({steps}) e JOIN steady t ON t.group_id = e.group_id WHERE {m.overlap("e.here", "t.steady")}
    """


def gone(m: Masks) -> str:
    """By view: who had ended, or left the group, no later than in it or in what closed behind it.

    Of a session counts its last stay in a view up to this one, and its first if there is none. Stays for which
    it is so switch their session's bit on where they begin to count, and off where they no longer do.
    """
    return f"""
    WITH chains AS (
      SELECT *, sum(IF(before_view IS NULL, 1, 0))
                OVER (PARTITION BY group_id, session_id ORDER BY begins) AS chain
      FROM audit_stays),
    tails AS (
      SELECT group_id, view, {m.columns("self")}, earlier_view IS NULL AS first,
             coalesce(sum(IF(closing, 0, 1)) OVER (PARTITION BY group_id, session_id, chain ORDER BY begins
                      ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING), 0) = 0
             AND bool_or(ended) OVER (PARTITION BY group_id, session_id, chain) AS over,
             min(view) OVER (PARTITION BY group_id, session_id ORDER BY begins
                             ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS until,
             min(view) OVER (PARTITION BY group_id, session_id) AS lowest
      FROM chains),
    switches AS (
      SELECT group_id, view, {m.columns("self")} FROM tails WHERE over AND (until IS NULL OR view < until)
      UNION ALL SELECT group_id, until, {m.columns("self")} FROM tails WHERE over AND view < until
      UNION ALL SELECT group_id, '', {m.columns("self")} FROM tails WHERE over AND first
      UNION ALL SELECT group_id, lowest, {m.columns("self")} FROM tails WHERE over AND first
      UNION ALL SELECT group_id, '', {m.columns("self")} FROM {persons(m)} WHERE NOT shown AND NOT alive
      UNION ALL SELECT DISTINCT group_id, view, {m.each("CAST(0 AS BIGINT)")} FROM audit_rooms)
    SELECT group_id, view, {m.each("bit_xor(self#) OVER (PARTITION BY group_id ORDER BY view) AS gone#")}
    FROM (SELECT group_id, view, {m.each("bit_xor(self#) AS self#")} FROM switches GROUP BY group_id, view)
    """


def owed(m: Masks) -> str:
    """All promises."""
    return f"""
    WITH said AS (
      SELECT room, 'members' AS kind, {m.each("members# AS owed#")}, {m.columns("self")} FROM audit_stays
      UNION ALL
      SELECT room, 'behind', {m.columns("after_together")}, {m.columns("self")}
      FROM audit_stays WHERE after_view IS NOT NULL
      UNION ALL
      SELECT room, 'lasting', {m.columns("members")}, {m.columns("self")}
      FROM audit_stays WHERE after_view IS NULL AND NOT ended
      UNION ALL
      SELECT s.room, 'friends', {m.columns("f.friends")}, {m.columns("s.self")}
      FROM audit_friends f JOIN audit_stays s ON s.id = f.id
      UNION ALL
      SELECT room, 'early', {m.columns("owed")}, {m.columns("self")} FROM audit_early)
    SELECT o.*, {m.columns("g.gone")}
    FROM (SELECT room, kind, {m.columns("owed")}, {m.each("bit_or(self#) AS said_by#")}
          FROM said GROUP BY room, kind, {m.columns("owed")}) o
         JOIN audit_rooms r ON r.room = o.room JOIN audit_gone g ON g.group_id = r.group_id AND g.view = r.view
    """
