"""The large tables: messages with their places in the one order, and the processes that delivered each.

A message is known by a hash of 64 bits of its name. Among 20 million messages, two share a hash with a chance
of one in 100 000; the audit would then report a violation that is none. The `place` of a message is a number
that rises with its stamp, and identifies it from there on.

A delivery is a few numbers: the place of its message, its stay, its position, and *marks*, bits that record
facts about it. Deliveries are reduced to *reach*, one row per message, and to *pieces*, one per message and
view, with the processes that delivered it there before the signal (`early`) and behind it (`late`).

Most messages are alike: they have one service and one sender, and the same processes have them on the same
side. *Patterns* are pieces of a kind with the lowest place of each. Queries about the bits are run on patterns
first, and on the messages of a pattern only where it is wrong. A query may compare the place only upwards
(`place < x`), so that the result for the lowest place holds for all.

The order at each process is checked by one pass over each *leg* in its order. A leg is a part of one stay, of
up to `LEG_POSITIONS` events. A running maximum tells whether an event came too late within it. The highest
place before the leg is carried over on the small table of legs. So a long life or a long stay is divided into
as many tasks as it has legs, and none is too large for memory.
"""

from collections.abc import Iterable
from enum import IntFlag
from typing import Final

from hopring.check.properties.sql import FIFO, LIVES_MAX, RELIABLE, SERVICE_NUMBER, TOTAL, Masks
from hopring.services import Service

SERVICE = f"CAST({SERVICE_NUMBER} AS INT)"
STAMP = "xxhash64(run, ord_lts, ord_site, ord_view, ord_place)"
KEY = "xxhash64(run, message)"
STAY_KEY = "xxhash64(run, process, view)"
LIFE = "xxhash64(run, process)"

STAY_KEYS = f"""
SELECT *, {LIFE} AS life, CASE WHEN stay > 0 THEN {STAY_KEY} END AS stay_key,
       CASE WHEN stay > 0 THEN xxhash64(view) END AS view_key
FROM audit_stays
"""
"""Stays with hashes of process and view, and of the process, by which events find theirs.

Comparing names for each event would take longer than all the rest.
"""


def placed(kind: str, columns: str, more: str = "", hint: str = "", events: str = "audit_trace") -> str:
    """Message events with the stay they are in, and further joins.

    Nearly all are in the view that they name, and one look finds it. Only for the others are all stays of the
    process gone through: a key that is null finds nothing and costs nothing.
    """
    return f"""
    SELECT /*+ BROADCAST(named), BROADCAST(other) */ {hint} {columns}
    FROM (SELECT *, {SERVICE} AS promised, {STAMP} AS stamp, {KEY} AS key,
                 {STAY_KEY} AS stay_key, {LIFE} AS life
          FROM {events} WHERE kind = '{kind}') e
    LEFT JOIN audit_stay_keys named ON named.stay_key = e.stay_key
         AND e.position > named.begins AND e.position < named.ends
    LEFT JOIN audit_stay_keys other ON other.life = CASE WHEN named.id IS NULL THEN e.life END
         AND e.position > other.begins AND e.position < other.ends
    {more}
    """


_SENDER = "left(e.message, length(e.message) - length(substring_index(e.message, ':', -1)) - 1)"


class Odd(IntFlag):
    """Flaws of a send by itself."""

    NAME = 1  # It is sent in the name of another.
    STAMP = 2  # The stamp is of another view than the send names.
    VIEW = 4  # It names an earlier view than its sender is in.


NAMED_SENDS = placed(
    "send",
    f"""
    /*+ BROADCAST(p) */ e.run, e.message, e.view, e.file, e.row, e.key, e.promised AS service, e.stamp,
    e.position, e.ord_lts, e.ord_site, e.ord_view, e.ord_place, xxhash64(e.view) AS view_key,
    coalesce(p.number, xxhash64(e.run, {_SENDER})) AS session, coalesce(named.id, other.id) AS stay_id,
    CAST(coalesce(e.resilience, 0) AS INT) AS resilience,
    IF(e.process <> {_SENDER}, {int(Odd.NAME)}, 0)
    + IF(e.view <> e.ord_view AND e.promised IN {RELIABLE}, {int(Odd.STAMP)}, 0)
    + IF(e.view < coalesce(named.view, other.view), {int(Odd.VIEW)}, 0) AS odd
    """,
    f"LEFT JOIN audit_processes p ON p.run = e.run AND p.process = {_SENDER}",
)
"""All sends, with their names; as they are in the trace, not kept."""

_NUMBERS = """
key, service, stamp, position, ord_lts, ord_site, ord_view, ord_place, view_key, session, stay_id, resilience
"""

SENDS = f"SELECT {_NUMBERS}, odd FROM audit_named_sends"
"""All sends, as numbers."""

TWICE = "SELECT key FROM audit_sends GROUP BY key HAVING count(*) > 1"
"""Messages that were sent again; none, if all is well."""

TIES = f"SELECT stamp FROM audit_sends WHERE service IN {RELIABLE} GROUP BY stamp HAVING count(*) > 1"
"""Stamps that were given twice; none, if all is well."""

WRONG = "SELECT stay_id, position FROM audit_sends WHERE odd <> 0"
"""The places of sends that are wrong by themselves; none, if all is well."""

ODD = f"""
SELECT t.run, t.process, s.position, s.message, s.view, t.view AS stay_view,
       (s.odd & {int(Odd.NAME)}) <> 0 AS other_name, (s.odd & {int(Odd.STAMP)}) <> 0 AS other_stamp,
       (s.odd & {int(Odd.VIEW)}) <> 0 AS earlier_view
FROM audit_wrong w JOIN audit_named_sends s ON s.stay_id = w.stay_id AND s.position = w.position
     JOIN audit_stays t ON t.id = w.stay_id
"""
"""These sends."""

ALIKE = f"""
SELECT min(place) AS place, max(place) AS other_place
FROM audit_messages WHERE service IN {RELIABLE} GROUP BY stamp HAVING count(*) > 1
"""
"""Messages that have one stamp; none, if all is well."""

_SEND = f"SELECT {_NUMBERS}, true AS sent, (odd & {int(Odd.NAME)}) = 0 AS own"
_SEEN = "run, message, view, file, '' AS process, row"

FIRST_SENDS = f"{_SEND} FROM audit_sends"
"""The send of each message, where each is sent once."""

DOUBTFUL = """
SELECT key FROM audit_twice
UNION SELECT s.key FROM audit_sends s LEFT SEMI JOIN audit_ties t ON t.stamp = s.stamp
"""
"""Messages that were sent again, or have the stamp of another one."""

_UNSEEN = """
CAST(NULL AS STRING) AS run, CAST(NULL AS STRING) AS message, CAST(NULL AS STRING) AS view,
CAST(NULL AS STRING) AS file, '' AS process, CAST(NULL AS BIGINT) AS row
"""

FIRST_OF_TWO = f"""
{_SEND}, {_UNSEEN} FROM audit_sends s LEFT ANTI JOIN audit_doubtful d ON d.key = s.key
UNION ALL
{_SEND}, {_SEEN}
FROM (SELECT *, row_number() OVER (PARTITION BY key ORDER BY file, row) AS nth
      FROM (SELECT n.* FROM audit_named_sends n LEFT SEMI JOIN audit_doubtful d ON d.key = n.key))
WHERE nth = 1
"""
"""The first send of each message; doubtful ones with columns that tell those of one stamp apart."""

SENT_NAMES = f"SELECT {KEY} AS key, run, message, view, file, row FROM audit_trace WHERE kind = 'send'"
"""The names of all sends, without what else is known of these."""

NAMES = """
SELECT n.key, n.run, n.message, n.view FROM audit_sent_names n LEFT ANTI JOIN audit_twice t ON t.key = n.key
UNION ALL
SELECT key, run, message, view
FROM (SELECT *, row_number() OVER (PARTITION BY key ORDER BY file, row) AS nth
      FROM (SELECT n.* FROM audit_sent_names n LEFT SEMI JOIN audit_twice t ON t.key = n.key))
WHERE nth = 1
"""
"""The name of each message, by its first send."""

MISSING_AT = """
SELECT s.process, m.position FROM audit_missing m JOIN audit_stays s ON s.id = m.stay_id
"""
"""Where messages that nobody sent were delivered."""

STRANGE_ROWS = """
SELECT /*+ BROADCAST(w) */ t.*
FROM (SELECT * FROM audit_near_trace WHERE kind = 'deliver') t
     LEFT SEMI JOIN (SELECT s.run, s.process, m.position
                     FROM audit_missing m JOIN audit_stays s ON s.id = m.stay_id) w
     ON w.run = t.run AND w.process = t.process AND w.position = t.position
"""
"""Deliveries of messages that nobody sent, as they are in the trace."""

UNSENT = f"""
SELECT key, service, stamp, CAST(NULL AS BIGINT) AS position, ord_lts, ord_site, ord_view, ord_place,
       CAST(NULL AS BIGINT) AS view_key, session, CAST(NULL AS BIGINT) AS stay_id, 0 AS resilience,
       false AS sent, false AS own,
       run, message, CAST(NULL AS STRING) AS view, '~' AS file, process, at AS row
FROM (SELECT t.run, t.message, t.key, t.promised AS service, t.stamp, t.process, t.position AS at,
             t.ord_lts, t.ord_site, t.ord_view, t.ord_place,
             coalesce(p.number, xxhash64(t.run, t.sender)) AS session,
             row_number() OVER (PARTITION BY t.key ORDER BY t.process, t.position) AS nth
      FROM (SELECT *, {KEY} AS key, {SERVICE} AS promised, {STAMP} AS stamp FROM audit_strange_rows) t
           LEFT JOIN audit_processes p ON p.run = t.run AND p.process = t.sender)
WHERE nth = 1
"""
"""Messages that were delivered and never sent, described by their first delivery."""


PLACE_STEP: Final = 1 << 16
"""Places of messages that were sent are multiples of it, so that others fit between them."""


def messages(first: str, seen: bool) -> str:
    """Every message with its place in the order; the rows are sorted, so the numbers given to them rise.

    The clocks come first, though runs have nothing to do with each other: Spark compares the first column as a
    number beside the row, and looks into the rows only where it is the same. Of messages with the same stamp,
    if there are any, the first that is `seen` comes first.
    """
    ties = ", run, file, process, row" if seen else ""
    return f"""
    SELECT key, service, stamp, position AS sent_at, view_key, session, stay_id, resilience, sent, own,
           monotonically_increasing_id() * {PLACE_STEP} AS place
    FROM (SELECT * FROM ({first}) ORDER BY ord_lts, ord_site, ord_view, ord_place {ties})
    """


UNSENT_MAX: Final = 16
"""Messages without a send that get their places one by one: each is compared with all sends."""

_ORD = "struct(#.ord_lts, #.ord_site, #.ord_view, #.ord_place)"

PLACED_BETWEEN = f"""
SELECT key, service, stamp, position AS sent_at, view_key, session, stay_id, resilience, sent, own,
       base + row_number() OVER (PARTITION BY base
                                 ORDER BY ord_lts, ord_site, ord_view, ord_place, run, process, row) AS place
FROM (SELECT /*+ BROADCAST(b) */ u.*, coalesce(b.base, -{PLACE_STEP}) AS base
      FROM audit_unsent u LEFT JOIN (
           SELECT /*+ BROADCAST(w) */ w.unsent, max(m.place) AS base
           FROM audit_known_messages m JOIN (
                SELECT /*+ BROADCAST(n) */ n.key AS unsent,
                       max(struct({_ORD.replace("#", "s")} AS ord, s.key AS key)).key AS below
                FROM audit_sends s JOIN audit_unsent n
                     ON {_ORD.replace("#", "s")} <= {_ORD.replace("#", "n")}
                GROUP BY n.key) w ON w.below = m.key
           GROUP BY w.unsent) b ON b.unsent = u.key)
"""
"""Messages that nobody sent, with places between those of the others; no two of these have one stamp."""


def named(names: str) -> str:
    """The names of messages, for the witnesses."""
    return f"""
    SELECT m.place, n.run, n.message, n.view AS sent_view
    FROM audit_messages m JOIN ({names}) n ON n.key = m.key
    """


POSTS = """
SELECT sent_at AS position, service, view_key, stay_id, place, session FROM audit_messages WHERE sent
UNION ALL
SELECT s.position, s.service, s.view_key, s.stay_id, m.place, m.session
FROM audit_sends s JOIN audit_twice t ON t.key = s.key JOIN audit_messages m ON m.key = s.key
WHERE s.stay_id <> m.stay_id OR s.position <> m.sent_at
"""
"""Every send with the place of its message."""


_FIRST: Final = 1 << max(Service).bit_length()


class DeliveryMark(IntFlag):
    """Marks of a delivery; the lowest bits are the service of the message."""

    SERVICE = _FIRST - 1
    LATE = _FIRST  # After the signal.
    MISPLACED = _FIRST << 1  # It names another view than its process is in.
    OTHER_STAMP = _FIRST << 2  # Than the message was sent with.
    OTHER_SERVICE = _FIRST << 3
    TOO_EARLY = _FIRST << 4  # By its sender, and before it was sent.
    NOT_SENT = _FIRST << 5
    ELSEWHERE = _FIRST << 6  # In another view than it was stamped in.
    WITHHELD = _FIRST << 8  # Passed over for want of a primary view.
    SENDING = _FIRST << 7  # No delivery at all, but the send, where both are looked at in their order.


_VIEW_ID = f"stay_id DIV {LIVES_MAX}"
_NUMBER = f"stay_id % {LIVES_MAX}"


_SIDES: Final = DeliveryMark.LATE | DeliveryMark.WITHHELD
"""Marks that differ between the processes that have a message, and are told by sets of these."""


def _mark(condition: str, mark: DeliveryMark) -> str:
    return f"IF({condition}, {int(mark)}, 0)"


def marked(mark: IntFlag, marks: str = "marks") -> str:
    """The condition that a delivery has this mark."""
    return f"({marks} & {int(mark)}) <> 0"


_MARKS = " + ".join(
    (
        "m.service",
        _mark("e.position > coalesce(named.cut, other.cut)", DeliveryMark.LATE),
        _mark("named.id IS NULL", DeliveryMark.MISPLACED),
        _mark("e.stamp <> m.stamp", DeliveryMark.OTHER_STAMP),
        _mark("e.promised <> m.service", DeliveryMark.OTHER_SERVICE),
        _mark("e.position < m.sent_at AND m.own AND e.sender = e.process", DeliveryMark.TOO_EARLY),
        _mark("NOT m.sent", DeliveryMark.NOT_SENT),
        _mark("coalesce(named.view_key, other.view_key) <> m.view_key", DeliveryMark.ELSEWHERE),
        _mark("coalesce(e.withheld, 0) = 1", DeliveryMark.WITHHELD),
    )
)


_DELIVERY = f"""
m.place, coalesce(named.id, other.id) AS stay_id, e.position, {_MARKS} AS marks, m.session, m.sent_at
"""


def delivered(hint: str) -> str:
    """Every delivery; without place, if there is no such message."""
    return placed("deliver", _DELIVERY, "LEFT JOIN audit_messages m ON m.key = e.key", hint)


MISSING = "SELECT stay_id, position FROM audit_known_deliveries WHERE place IS NULL"
"""Deliveries of messages that nobody sent; none, if all is well."""

STRANGE = placed(
    "deliver", _DELIVERY, "JOIN audit_unsent_messages m ON m.key = e.key", events="audit_strange_rows"
)
"""These, with the places that their messages were given."""

DELIVERIES = f"""
SELECT place, stay_id, position, session, sent_at, {_VIEW_ID} AS view_id,
       marks & {int(DeliveryMark.SERVICE)} AS service, {marked(DeliveryMark.LATE)} AS late,
       {marked(DeliveryMark.MISPLACED)} AS misplaced
FROM audit_delivered
"""
"""The same with decoded columns."""

WRONG_PLACES = "SELECT DISTINCT place FROM audit_holdings WHERE twice OR misplaced"
"""The messages of which properties look at single deliveries; none, if all is well."""

LATE_STAYS = "SELECT id FROM audit_fifo UNION SELECT id FROM audit_courses"
"""Stays with events that came too late; none, if all is well."""


def only(table: str, column: str, values: Iterable[int] | None) -> str:
    """The rows of a kept table with these values; all rows, if the values are not known.

    Spark keeps the lowest and the highest value of each ten thousand rows and skips those where none can be. A
    join reads all. It looks into short lists only, so the ends of the list are named, too.
    """
    if values is None:
        return f"SELECT * FROM {table}"
    listed = sorted(values)
    if not listed:
        return f"SELECT * FROM {table} WHERE false"
    ends = f"{column} BETWEEN {listed[0]} AND {listed[-1]}"
    return f"SELECT * FROM {table} WHERE {ends} AND {column} IN ({', '.join(map(str, listed))})"


def _sides(m: Masks) -> str:
    late = marked(DeliveryMark.LATE)
    return f"""
    {m.each(f"bit_or({m.bit(_NUMBER, late)}) AS early#")},
    {m.each(f"bit_or({m.bit(_NUMBER, f'NOT {late}')}) AS late#")}
    """


def reach(m: Masks) -> str:
    """By message: the processes that have it, how often it was delivered, in which views, and its marks.

    Rows go to where their message is first, and are grouped there. The other way round Spark groups the rows of
    each file before, for nothing: a daemon delivers a message once.
    """
    return f"""
    SELECT *, {m.each("early# | late# AS got#")}, marks & {int(DeliveryMark.SERVICE)} AS service FROM (
      SELECT place, count(*) AS times, min({_VIEW_ID}) AS low_view_id, max({_VIEW_ID}) AS high_view_id,
             bit_or(marks) AS marks, min(session) AS session, {_sides(m)}
      FROM (SELECT place, stay_id, marks, session FROM audit_delivered DISTRIBUTE BY place)
      GROUP BY place)
    """


RESILIENCES = "SELECT DISTINCT resilience FROM audit_sends WHERE resilience > 0"
"""The resiliences of messages; none, if no message has one."""


def kept(m: Masks) -> str:
    """By resilient message and view: the processes that delivered or passed over it; and all that have it."""
    late, held = marked(DeliveryMark.LATE), marked(DeliveryMark.WITHHELD)
    return f"""
    SELECT d.*, {m.columns("r.got")}
    FROM (SELECT place, view_id, resilience, {m.each(f"bit_or({m.bit('number', 'late OR held')}) AS early#")},
                 {m.each(f"bit_or({m.bit('number', 'held OR NOT late')}) AS late#")},
                 {m.each(f"bit_or({m.bit('number', 'NOT held')}) AS held#")}
          FROM (SELECT e.*, x.resilience
                FROM (SELECT place, {_VIEW_ID} AS view_id, {_NUMBER} AS number, {late} AS late, {held} AS held
                      FROM audit_delivered) e
                     JOIN (SELECT place, resilience FROM audit_messages
                           WHERE resilience > 0 AND service IN {RELIABLE}) x ON x.place = e.place)
          GROUP BY place, view_id, resilience) d
         JOIN audit_reach r ON r.place = d.place
    """


SCATTERED = "SELECT place FROM audit_reach WHERE low_view_id <> high_view_id"
"""Messages that were delivered in several views; none, if all is well."""


def apart(m: Masks) -> str:
    """By message and view, of these messages."""
    return f"""
    SELECT d.place, {_VIEW_ID} AS view_id, bit_or(marks) AS marks, {_sides(m)}
    FROM audit_delivered_apart d JOIN audit_scattered s ON s.place = d.place GROUP BY d.place, {_VIEW_ID}
    """


def pieces(m: Masks) -> str:
    """By message and view: the marks of its deliveries, and the processes that have it there and anywhere."""
    twice = f"r.times > {m.count('r.got')} AS twice"
    return f"""
    SELECT place, low_view_id AS view_id, marks & ~{int(_SIDES)} AS marks, session, {twice},
           {m.columns("early")}, {m.columns("late")}, {m.columns("got")}
    FROM audit_reach r WHERE low_view_id = high_view_id
    UNION ALL
    SELECT a.place, a.view_id, a.marks & ~{int(_SIDES)}, r.session, {twice},
           {m.columns("a.early")}, {m.columns("a.late")}, {m.columns("r.got")}
    FROM audit_apart a JOIN audit_reach r ON r.place = a.place
    """


def _kind(m: Masks) -> str:
    """What pieces of one pattern have in common."""
    return f"view_id, marks, session, twice, {m.columns('early')}, {m.columns('late')}, {m.columns('got')}"


def patterns(m: Masks) -> str:
    """Pieces that differ in nothing but their place are one pattern."""
    return f"(SELECT min(place) AS place, {_kind(m)} FROM audit_pieces GROUP BY {_kind(m)})"


def wrong_pieces(m: Masks, places: Iterable[int], *, misplaced: bool) -> str:
    """All pieces of the patterns of these places; of those with deliveries in another view too, if wanted."""
    listed = ", ".join(map(str, places)) or "NULL"
    either = f"place IN ({listed})" + (f" OR {marked(DeliveryMark.MISPLACED)}" if misplaced else "")
    same = " AND ".join([f"w.{name.strip()} <=> p.{name.strip()}" for name in _kind(m).split(",")])
    return f"""
    SELECT p.* FROM audit_pieces p LEFT SEMI JOIN (
           SELECT DISTINCT {_kind(m)} FROM audit_pieces WHERE {either}) w ON {same}
    """


NAMED_PIECES = "SELECT * FROM audit_near_named x LEFT SEMI JOIN audit_wrong_pieces h ON h.place = x.place"
"""The names of messages in wrong patterns."""

WRONG_SENT_AT = """
SELECT s.process, m.sent_at AS position
FROM (SELECT * FROM audit_messages WHERE sent) m LEFT SEMI JOIN audit_wrong_pieces h ON h.place = m.place
     LEFT JOIN audit_stays s ON s.id = m.stay_id
"""
"""Where these were sent first; without a process, if that was outside of every view."""


def holdings(m: Masks, pieces_table: str, named: bool) -> str:
    """Pieces or patterns with decoded columns.

    Where names are not wanted, that of the message is the place of its pattern.
    """
    names = "x.message, x.sent_view" if named else "CAST(h.place AS STRING) AS message, '' AS sent_view"
    join = "JOIN audit_named_pieces x ON x.place = h.place" if named else ""
    return f"""
    SELECT /*+ BROADCAST(r), BROADCAST(p) */ h.place, h.view_id, h.twice, r.run, '' AS group_name, r.view,
           r.nth, {names}, p.process AS sender, h.marks & {int(DeliveryMark.SERVICE)} AS service, {_flags()},
           {m.each("coalesce(p.self#, 0) AS sender#")}, {m.columns("h.early")}, {m.columns("h.late")},
           {m.columns("h.got")}, {m.each("h.early# | h.late# AS here#")}, {m.columns("r.installed")},
           {m.columns("r.ended")}, {m.columns("r.signalled")}
    FROM {pieces_table} h JOIN audit_views r ON r.view_id = h.view_id
         LEFT JOIN audit_processes p ON p.run = r.run AND p.number = h.session {join}
    """


def _flags() -> str:
    """The marks that questions are asked about, under their names."""
    flags = set(DeliveryMark) - {DeliveryMark.LATE, DeliveryMark.SENDING, DeliveryMark.WITHHELD}
    return ", ".join(f"{marked(flag, 'h.marks')} AS {str(flag.name).lower()}" for flag in sorted(flags))


LEG_BITS: Final = 12
LEG_POSITIONS: Final = 1 << LEG_BITS
_LEGS_BITS: Final = 24  # Of one stay; more positions than any process lives to.

_LEG = f"shiftleft(stay_id, {_LEGS_BITS}) + shiftright(position, {LEG_BITS})"
_SENDING, _LATE = marked(DeliveryMark.SENDING), marked(DeliveryMark.LATE)
_SERVICE = f"(marks & {int(DeliveryMark.SERVICE)})"
_RELIABLE = f"{_SERVICE} IN {RELIABLE}"
_IS_FIFO = f"{_SERVICE} IN {FIFO}"
_AGREED = f"{_SERVICE} IN {TOTAL} AND NOT {_SENDING}"


_STEPS: Final = f"""
SELECT {_LEG} AS leg, position, place, session, sent_at, marks FROM audit_delivered WHERE {_RELIABLE}
UNION ALL
SELECT {_LEG}, position, place, session, NULL, service + {int(DeliveryMark.SENDING)}
FROM audit_posts WHERE service IN {RELIABLE}
"""

_PASSED: Final = f"""
SELECT *, max(place) OVER earlier AS top, max(IF({_AGREED}, place, NULL)) OVER earlier AS top_agreed,
       max(IF({_IS_FIFO}, sent_at, NULL)) OVER earlier_of_session AS last
FROM (SELECT * FROM ({_STEPS}) DISTRIBUTE BY leg)
WINDOW earlier AS (PARTITION BY leg ORDER BY position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
       earlier_of_session AS (PARTITION BY leg, session ORDER BY position
                              ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
"""

# Without WITH: Spark makes a kept table anew where both its query and that over it have one.
PACES: Final = f"""
SELECT leg, session, shiftright(leg, {_LEGS_BITS}) AS stay_id, max(place) AS highest,
       max(IF({_AGREED}, place, NULL)) AS highest_agreed,
       min(IF({_AGREED}, place, NULL)) AS lowest_agreed,
       min(IF({_SENDING}, NULL, place)) AS lowest_delivered,
       min(IF({_SENDING}, place, NULL)) AS lowest_sent,
       max(IF({_AGREED} AND NOT {_LATE}, place, NULL)) AS agreed_early,
       max(IF({_AGREED} AND {_LATE}, place, NULL)) AS agreed_late,
       min(IF({_SENDING} AND place <= top, position, NULL)) AS sent_below,
       min(IF(NOT {_SENDING} AND place < top_agreed, position, NULL)) AS came_late,
       bool_or({_AGREED} AND place < top_agreed) AS unsorted,
       max(IF({_IS_FIFO}, sent_at, NULL)) AS latest, min(sent_at) AS oldest,
       min(IF(sent_at < last, position, NULL)) AS came_late_of_session
FROM ({_PASSED}) GROUP BY leg, session
"""
"""By leg and session: the events that came too late, and the range of their places.

Within a session, a delivery is late if it came after one that was sent later. Over all, a send is late if it is
not above everything before it, and a delivery if it is below an agreed one.
"""

COURSES: Final = """
SELECT * FROM (
  SELECT /*+ BROADCAST(s) */ s.run, s.process, s.id, d.*,
         max(d.highest) OVER earlier AS carried, max(d.highest_agreed) OVER earlier AS carried_agreed
  FROM (SELECT leg, stay_id, max(highest) AS highest, max(highest_agreed) AS highest_agreed,
               min(lowest_agreed) AS lowest_agreed, min(lowest_delivered) AS lowest_delivered,
               min(lowest_sent) AS lowest_sent, min(sent_below) AS sent_below, min(came_late) AS came_late,
               bool_or(unsorted) AS unsorted
        FROM audit_paces GROUP BY leg, stay_id) d
       JOIN audit_stays s ON s.id = d.stay_id
  WINDOW earlier AS (PARTITION BY s.run, s.process ORDER BY s.stay, d.leg
                     ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))
WHERE sent_below IS NOT NULL OR came_late IS NOT NULL
      OR lowest_sent <= carried OR lowest_delivered < carried_agreed
"""
"""Legs with events that came too late, in them or after the highest before them; none, if all is well."""

TOPS: Final = """
SELECT /*+ BROADCAST(s) */ s.id AS stay_id, s.view_id, c.agreed_early AS early_top, c.agreed_late AS late_top
FROM (SELECT stay_id, max(agreed_early) AS agreed_early, max(agreed_late) AS agreed_late
      FROM audit_paces GROUP BY stay_id) c
     JOIN audit_stays s ON s.id = c.stay_id
"""
"""By stay: its highest agreed messages on either side of the signal."""

FIFO_LEGS: Final = """
SELECT * FROM (
  SELECT /*+ BROADCAST(s) */ s.run, s.process, s.id, d.session, d.came_late_of_session AS came_late, d.oldest,
         max(d.latest) OVER (PARTITION BY s.run, s.process, d.session ORDER BY s.stay, d.leg
                             ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS carried
  FROM audit_paces d JOIN audit_stays s ON s.id = d.stay_id)
WHERE came_late IS NOT NULL OR oldest < carried
"""
"""Of legs and sessions the same: a delivery that came after one that was sent later."""

MISSTEPS: Final = """
SELECT run, process, came_late AS position, 'fifo' AS order FROM audit_fifo WHERE came_late IS NOT NULL
UNION ALL
SELECT /*+ BROADCAST(f) */ f.run, f.process, d.position, 'fifo'
FROM audit_fifo f
     JOIN audit_late_deliveries d ON d.stay_id = f.id AND d.session = f.session AND d.sent_at = f.oldest
WHERE f.oldest < f.carried
UNION ALL
SELECT run, process, sent_below, 'causal' FROM audit_courses WHERE sent_below IS NOT NULL
UNION ALL
SELECT /*+ BROADCAST(c) */ c.run, c.process, s.position, 'causal'
FROM audit_courses c JOIN audit_posts s ON s.stay_id = c.id AND s.place = c.lowest_sent
WHERE c.lowest_sent <= c.carried
UNION ALL
SELECT run, process, came_late, 'agreed' FROM audit_courses WHERE came_late IS NOT NULL
UNION ALL
SELECT /*+ BROADCAST(c) */ c.run, c.process, d.position, 'agreed'
FROM audit_courses c JOIN audit_late_deliveries d ON d.stay_id = c.id AND d.place = c.lowest_delivered
WHERE c.lowest_delivered < c.carried_agreed
"""
"""Events that came too late, by the order that they break: 2.11, 2.12 or 2.13(2)."""

UNSORTED: Final = """
SELECT DISTINCT run FROM audit_courses WHERE unsorted OR lowest_agreed < carried_agreed
"""
"""Histories in which some process does not deliver agreed messages in the order of their places."""
