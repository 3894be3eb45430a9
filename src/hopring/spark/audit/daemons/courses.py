"""The order of events at each process: one pass over each *leg* in its order.

A leg is a stretch of one stay, of up to `LEG_POSITIONS` events. A running maximum says whether an event came
too late within it. What was before the leg is its highest place so far, carried over on the small table of
legs: a long life, or a long stay, is as many pieces of work as it has legs, and none is too large for memory.
"""

from typing import Final

from hopring.check.properties.sql import FIFO, RELIABLE, TOTAL
from hopring.spark.audit.daemons.holdings import DeliveryMark, marked

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
"""By leg and session: what came too late, and between which places it all was.

Of a session: a delivery that came after one that was sent later. Of all: too late are sends that are not above
all before, and deliveries below an agreed one.
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
"""Legs with events that came too late, in them or after what was highest before; none, if all is well."""

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
     JOIN audit_deliveries d ON d.stay_id = f.id AND d.session = f.session AND d.sent_at = f.oldest
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
FROM audit_courses c JOIN audit_deliveries d ON d.stay_id = c.id AND d.place = c.lowest_delivered
WHERE c.lowest_delivered < c.carried_agreed
"""
"""Events that came too late, by the order that they break: 2.11, 2.12 or 2.13(2)."""

UNSORTED: Final = """
SELECT DISTINCT run FROM audit_courses WHERE unsorted OR lowest_agreed < carried_agreed
"""
"""Histories in which some process does not deliver agreed messages in the order of their places."""
