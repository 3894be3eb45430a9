"""The large tables: sends, deliveries by group and view, and the sessions that have each message.

As among daemons, a message is known by a hash of 64 bits, and its `place` rises with its stamp; the stamp is
that of its first delivery, because a session does not know it when it sends. A delivery has a row for each
group that it was sent to; the first of them is its `head`. *Holdings* are by message, group and view, with the
sessions that delivered it there before the signal (`early`) and behind it (`late`), and anywhere (`got`). A
sender's own message that it did not want is `unwanted` by it, and counts as got.

Promises in views say to whom the messages of a view are owed, so that a query needs one join. A promise is a
view_id, a kind, the set of sessions that are owed messages, and the set of sessions whose deliveries there are
owed. Equal promises in a view are one row.

`members`   the members of the view
`behind`    those who come along to the next view
`lasting`   the members of a view, for deliveries of sessions that are in it at the end
`companions`   those who move along to the same next view
`early`     those who come along up to the next change of network, and are there at the end without a leave
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from hopring.check.properties.sql import SERVICE_NUMBER, Masks
from hopring.check.properties.synchrony import NETWORK
from hopring.spark.audit.clients.stays import FOUND, SessionStay, TracedGroup

KEY: Final = "xxhash64(run, message)"
STAMP: Final = "xxhash64(ord_lts, ord_site, ord_view, ord_place)"
SERVICE: Final = f"CAST({SERVICE_NUMBER} AS TINYINT)"
SENDER: Final = "left(message, length(message) - length(substring_index(message, ':', -1)) - 1)"
SEEN: Final = "{session} * 1099511627776 + {position}"
"""The place of an event in its history, by sessions in the order in which they appear."""

_GROUPS: Final = "IF(size(groups) < 2, groups, array_distinct(groups))"
_SESSION: Final = "JOIN audit_known s ON s.process_hash = xxhash64(e.run, e.process)"

KNOWN: Final = "SELECT id, process, xxhash64(run, process) AS process_hash FROM audit_sessions"
"""One number to look a session up by, which is quicker than two columns are."""

SENDS: Final = f"""
SELECT /*+ BROADCAST(s) */ e.key, e.run, e.message, e.named AS sender, s.id AS session_id, s.process,
       e.position, e.promised AS service, e.self_discard = 1 AS discard, e.groups, e.groups_hash,
       CAST(coalesce(e.resilience, 0) AS INT) AS resilience,
       {SEEN.format(session="s.id", position="e.position")} AS seen
FROM (SELECT *, {KEY} AS key, {SERVICE} AS promised, {SENDER} AS named, xxhash64(groups) AS groups_hash
      FROM audit_trace WHERE kind = 'send') e {_SESSION}
"""

POSTS: Final = f"""
SELECT /*+ BROADCAST(t) */ e.key, e.run, e.message, e.session_id, e.process, e.position, e.seen, e.service,
       e.discard, e.group_name, t.group_id, t.stay_id, coalesce(t.parting, false) AS parting,
       coalesce(t.wanted AND NOT coalesce(t.last_leave_at > e.position, false), false) AS staying
FROM (SELECT *, explode({_GROUPS}) AS group_name FROM audit_sends) e LEFT JOIN audit_spans t ON {FOUND}
"""
"""A send for each of its groups: the stay that its session was in, and whether it meant to be in the group."""

DELIVERIES: Final = f"""
SELECT /*+ BROADCAST(s), BROADCAST(t) */ e.key, s.id AS session_id, e.position, e.promised AS service, e.stamp,
       e.ord_lts, e.ord_site, e.ord_view, e.ord_place, e.groups_hash, coalesce(e.at, 0) = 0 AS head,
       e.group_count, t.group_id, t.stay_id, t.view_id, CAST(t.number AS INT) AS number,
       coalesce(e.position > t.cut, false) AS late,
       coalesce(t.stay_id IS NOT NULL OR t.private, false) AS addressed
FROM (SELECT run, process, position, ord_lts, ord_site, ord_view, ord_place, {KEY} AS key,
             {SERVICE} AS promised, {STAMP} AS stamp, xxhash64(groups) AS groups_hash,
             size({_GROUPS}) AS group_count, posexplode_outer({_GROUPS}) AS (at, group_name)
      FROM audit_trace WHERE kind = 'deliver') e
     {_SESSION} LEFT JOIN audit_spans t ON {FOUND}
"""

REACH: Final = f"""
SELECT key, count(*) AS times, min({SEEN.format(session="session_id", position="position")}) AS first_seen,
       min(service) AS low_service, max(service) AS high_service, min(stamp) AS low_stamp,
       max(stamp) AS high_stamp, min(groups_hash) AS low_groups, max(groups_hash) AS high_groups
FROM audit_deliveries WHERE head GROUP BY key
"""
"""By message: the lowest and highest values in its deliveries."""

NEVER_SENT: Final = "SELECT r.key FROM audit_reach r LEFT ANTI JOIN audit_sends s ON s.key = r.key"

_SAID: Final = """
r.low_service, r.high_service, r.low_stamp, r.high_stamp, r.low_groups, r.high_groups
"""

_FIRST_SENDS: Final = f"""
SELECT *, row_number() OVER (PARTITION BY session_id, sender ORDER BY position) AS turn
FROM (SELECT s.key, s.run, s.message, s.sender, s.session_id, s.position, s.service, s.resilience, s.seen,
             {_SAID},
             row_number() OVER (PARTITION BY s.key ORDER BY s.seen) AS nth,
             last_value(s.groups_hash) OVER (PARTITION BY s.key ORDER BY s.seen
                ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS groups_hash
      FROM audit_sends s JOIN audit_reach r ON r.key = s.key)
WHERE nth = 1
"""
"""The sends of messages that were delivered; `turn` is the position among those of one session and name."""

_UNSENT: Final = f"""
UNION ALL
SELECT f.key, f.run, f.message, f.sender, NULL, NULL, NULL, 0, r.first_seen, {_SAID}, 1, NULL, NULL
FROM (SELECT DISTINCT k.key, t.run, t.message, t.named AS sender
      FROM (SELECT *, {KEY} AS key, {SENDER} AS named FROM audit_trace WHERE kind = 'deliver') t
           JOIN audit_never_sent k ON k.key = t.key) f
     JOIN audit_reach r ON r.key = f.key
"""


def stamped(hint: str, unsent: bool) -> str:
    """Every message with the stamp of its first delivery, and the values of the others."""
    seen = SEEN.format(session="d.session_id", position="d.position")
    return f"""
    WITH known AS ({_FIRST_SENDS} {_UNSENT if unsent else ""}),
    stamps AS (
      SELECT {hint} d.key, d.service, d.stamp, d.ord_lts, d.ord_site, d.ord_view, d.ord_place
      FROM audit_deliveries d JOIN (SELECT key, first_seen FROM audit_reach) m
           ON m.key = d.key AND m.first_seen = {seen}
      WHERE d.head)
    SELECT k.key, k.run, k.message, k.sender, k.resilience, xxhash64(k.run, k.sender) AS session,
           coalesce(k.service, t.service) AS service, k.session_id IS NOT NULL AS sent, k.turn, k.seen,
           k.groups_hash, {_SAID.replace("r.", "k.")}, t.stamp, t.ord_lts, t.ord_site, t.ord_view, t.ord_place
    FROM known k JOIN stamps t ON t.key = k.key
    """


MESSAGES: Final = """
SELECT *, monotonically_increasing_id() AS place
FROM (SELECT * FROM audit_stamped ORDER BY run, ord_lts, ord_site, ord_view, ord_place, NOT sent, seen)
"""
"""The same with their places in the order; the rows are sorted, so the numbers given to them rise."""

NAMED: Final = "SELECT place, run, message FROM audit_messages"
"""The names of messages, for the witnesses."""

ORDER: Final = "SELECT key, place, service, session, turn, sent FROM audit_messages"
"""The columns of a message that a pass over deliveries needs: small enough to be on every worker."""

UNLIKE: Final = """
WITH said AS (
  SELECT key, low_groups AS groups_hash FROM audit_reach UNION SELECT key, high_groups FROM audit_reach
  UNION SELECT key, groups_hash FROM audit_sends)
SELECT key FROM said GROUP BY key HAVING count(*) > 1
"""
"""Messages whose deliveries name different groups: a delivery through one group counts in the others, too."""


def holdings(m: Masks, unlike: bool) -> str:
    """By message, group and view; a row without a view has the sessions that got it outside of the group."""
    return f"""
    WITH found AS (
      SELECT key, group_id, view_id, number, late, true AS came, false AS unwanted
      FROM audit_deliveries WHERE number IS NOT NULL
      UNION ALL
      SELECT s.key, p.group_id, NULL, CAST(p.number AS INT), false, false, true
      FROM (SELECT key, session_id, explode(array_distinct(groups)) AS group_name
            FROM audit_sends WHERE discard) s
           JOIN audit_processes p ON p.session_id = s.session_id AND p.group_name = s.group_name AND p.shown
      {_ELSEWHERE if unlike else ""}),
    had AS (
      SELECT key, group_id, view_id, {m.each(f"bit_or({m.bit('number')}) AS any#")},
             {m.each(f"bit_or({m.bit('number', 'view_id IS NULL OR late')}) AS early#")},
             {m.each(f"bit_or({m.bit('number', 'view_id IS NULL OR NOT late')}) AS late#")},
             {m.each(f"bit_or({m.bit('number', 'NOT unwanted')}) AS not_wanted#")},
             {m.each(f"bit_or({m.bit('number', 'NOT came')}) AS came#")}, count_if(came) AS times
      FROM found GROUP BY key, group_id, view_id),
    spread AS (
      SELECT key, group_id, view_id, {m.columns("early")}, {m.columns("late")},
             {m.each("early# | late# AS here#")}, {m.each("bit_or(any#) OVER message AS got#")},
             {m.each("bit_or(not_wanted#) OVER message AS unwanted#")},
             sum(IF({m.some("early")}, 1, 0)) OVER message AS early_views,
             sum(times) OVER message > {m.each("bit_count(bit_or(came#) OVER message)", " + ")} AS doubled
      FROM had WINDOW message AS (PARTITION BY key, group_id))
    SELECT /*+ BROADCAST(r), BROADCAST(p) */ h.*, x.run, x.message, x.place, x.service, r.group_name, r.view,
           coalesce(r.nth, 1) AS nth, {m.each("coalesce(r.installed#, 0) AS installed#")},
           {m.each("coalesce(r.signalled#, 0) AS signalled#")}, {m.each("coalesce(p.self#, 0) AS sender#")}
    FROM spread h JOIN audit_messages x ON x.key = h.key LEFT JOIN audit_views r ON r.view_id = h.view_id
         LEFT JOIN audit_processes p ON p.group_id = h.group_id AND p.process = x.sender
    """


_ELSEWHERE: Final = """
      UNION ALL
      SELECT d.key, p.group_id, NULL, CAST(p.number AS INT), false, false, d.unwanted
      FROM (SELECT key, session_id, false AS unwanted FROM audit_deliveries WHERE head
            UNION ALL SELECT key, session_id, true FROM audit_sends WHERE discard) d
           JOIN audit_unlike u ON u.key = d.key
           JOIN audit_processes p ON p.session_id = d.session_id AND p.shown
"""


def origins(m: Masks) -> str:
    """The view in which a member sent a message, and that member. A session that has asked to leave is none."""
    return f"""
    SELECT p.key, p.group_id, s.view, {m.columns("s.self")}
    FROM (SELECT key, group_id, max_by(stay_id, seen) AS stay_id
          FROM audit_posts WHERE stay_id IS NOT NULL AND NOT parting GROUP BY key, group_id) p
         JOIN audit_stays s ON s.id = p.stay_id
    """


def own(hint: str) -> str:
    """By session and own message: where it was first sent, and where it was first delivered."""
    return f"""
    SELECT {hint} d.session_id, d.key, m.service, m.sent_at, min(d.position) AS position
    FROM audit_deliveries d
         JOIN (SELECT s.session_id, s.key, o.service, min(s.position) AS sent_at
               FROM audit_sends s JOIN audit_order o ON o.key = s.key
               GROUP BY s.session_id, s.key, o.service) m
         ON m.session_id = d.session_id AND m.key = d.key
    WHERE d.head GROUP BY d.session_id, d.key, m.service, m.sent_at
    """


Companions = dict[SessionStay, int]

BEFORE_ALL: Final = ""
"""Text that sorts before every view."""


def owed_rows(groups: Iterable[TracedGroup], alive: set[tuple[str, str]]) -> Iterator[tuple[Any, ...]]:
    """In the order of the columns of `OWED`."""
    for group in groups:
        said: dict[tuple[int, str, int], int] = {}
        for stay, kind, owed in _promises(group):
            key = stay.view_id, kind, owed
            said[key] = said.get(key, 0) | stay.self
        gone = gone_by(group, alive)
        views = {view_id: view for (view, _nth), view_id in group.view_ids.items()}
        for (view_id, kind, owed), said_by in said.items():
            yield view_id, kind, owed, said_by, gone[views[view_id]]


def _promises(group: TracedGroup) -> Iterator[tuple[SessionStay, str, int]]:
    companions = companions_of(group)
    for stay in group.stays:
        yield stay, "members", stay.members
        if stay.after is not None:
            yield stay, "behind", stay.after.together
        elif not stay.ended:
            yield stay, "lasting", stay.members
        if stay in companions:
            yield stay, "companions", companions[stay]
    for stay, owed in early_of(group, companions):
        yield stay, "early", owed


def companions_of(group: TracedGroup) -> Companions:
    """Sessions that left one view for the same next one, each with its companions.

    Where all have the same transitional set, one comparison is enough; elsewhere pairs are compared.
    """
    moves: dict[tuple[int, str], list[SessionStay]] = {}
    for stay in group.stays:
        if stay.nth == 1 and stay.after is not None:
            moves.setdefault((stay.view_id, stay.after.view), []).append(stay)
    return {stay: companions for stays in moves.values() for stay, companions in _companions(stays)}


def _companions(stays: list[SessionStay]) -> Iterator[tuple[SessionStay, int]]:
    way = sum(stay.self for stay in stays)
    sets = {_along(stay) for stay in stays}
    for stay in stays:
        if len(sets) == 1:
            yield stay, way if stay.self & _along(stay) else way & _along(stay)
        else:
            yield (
                stay,
                way & _along(stay) | sum(other.self for other in stays if _along(other) & stay.self) & way,
            )


def _along(stay: SessionStay) -> int:
    return stay.after.together if stay.after is not None else 0


def early_of(group: TracedGroup, companions: Companions) -> Iterator[tuple[SessionStay, int]]:
    """By stay: the companions at a later change of network that came along all the way.

    A session that ever leaves, or is not there at the end, is owed nothing.
    """
    steady = 0
    for stay in group.stays:
        steady |= stay.self if stay.session.alive else 0
    for stay in group.stays:
        steady &= ~stay.self if stay.leaves else ~0
    reached: dict[SessionStay, int] = {}
    for stay in reversed(group.stays):  # A session's later stays come before its earlier ones.
        after = stay.after
        if after is None:
            reached[stay] = 0
            continue
        here = companions.get(stay, 0) if after.shown.cause == NETWORK else 0
        reached[stay] = here | (after.together & reached[after])
        if reached[stay] & steady:
            yield stay, reached[stay] & steady


def gone_by(group: TracedGroup, alive: set[tuple[str, str]]) -> dict[str, int]:
    """By view: sessions that had ended or left the group no later than in it or in one that closed behind it.

    Of a session, its last stay in a view up to this one counts, or its first if there is none. A stay that
    ended so switches its session's bit on where it begins to count, and off where it no longer does.
    """
    switches: dict[str, int] = {BEFORE_ALL: _never_there(group, alive)}
    by_session: dict[int, list[SessionStay]] = {}
    for stay in group.stays:
        switches.setdefault(stay.view, 0)
        by_session.setdefault(stay.session.id, []).append(stay)
    for stays in by_session.values():
        for view, bit in _switches(stays):
            switches[view] ^= bit
    gone, found = 0, {}
    for view in sorted(switches):
        gone ^= switches[view]
        found[view] = gone
    return found


def _never_there(group: TracedGroup, alive: set[tuple[str, str]]) -> int:
    """The sessions that a view names, that were never shown a view, and that are not there at the end."""
    shown = {stay.session.process for stay in group.stays}
    return sum(
        1 << number
        for process, number in group.numbers.items()
        if process not in shown and (group.run, process) not in alive
    )


def _switches(stays: list[SessionStay]) -> Iterator[tuple[str, int]]:
    """The switches of one session, from its stays in their order."""
    until = ""  # The lowest view of those that follow; nothing if none do.
    for stay in reversed(stays):
        if _over(stay):
            if not until or stay.view < until:
                yield stay.view, stay.self
                if until:
                    yield until, stay.self
            if stay is stays[0]:
                yield BEFORE_ALL, stay.self
                yield min(stay.view, until or stay.view), stay.self
        until = min(stay.view, until or stay.view)


def _over(stay: SessionStay) -> bool:
    """Whether the session ended in this stay, or in one of those that only closed behind it."""
    at: SessionStay | None = stay
    while at is not None:
        if at.ended:
            return True
        at = at.after if at.after is not None and at.after.closing else None
    return False
