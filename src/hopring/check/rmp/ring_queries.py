"""R1 to R17 as queries: each returns the events that break its property, as the plain check does.

Below       the tables of `ring_tables`.
Invariants  a query and the check of the same name find the same events.
"""

from typing import Final

from hopring.check.properties.sql import TOTAL
from hopring.check.rmp.ring_tables import (
    CONFIRMED,
    ENDED,
    LIST,
    ORDERED,
    SHOWN,
    STRANGER_ACKNOWLEDGED,
    STRANGER_SHOWN,
    TOLD,
)

_PROCESSES: Final = "transform({0}, one -> TRIM(TRAILING '''' FROM one))"
"""The processes of members."""

ONE_CONTENT: Final = f"""
SELECT run, record, position, process, epoch, timestamp
FROM (SELECT *, first_value(content) OVER (PARTITION BY run, record, epoch, timestamp ORDER BY position)
                AS first_content
      FROM (SELECT run, record, position, process, epoch, timestamp,
                   IF(size(members) > 0, concat('list ', array_join(members, ' ')),
                      concat('ACK ', process, ' to ', next)) AS content
            FROM audit_ring_orderings
            UNION ALL
            SELECT run, record, position, process, epoch, timestamp + 1 + at, message
            FROM audit_ring_orderings LATERAL VIEW posexplode(messages) AS at, message
            UNION ALL
            SELECT run, record, position, process, epoch, timestamp, message
            FROM audit_rings WHERE kind = '{SHOWN}' AND timestamp > 0
            UNION ALL
            SELECT run, record, position, process, epoch, timestamp, concat('list ', array_join(members, ' '))
            FROM audit_ring_lists))
WHERE content <> first_content
"""

RISING_ORDER: Final = f"""
WITH made AS (SELECT * FROM audit_ring_orderings WHERE size(members) > 0),
steps AS (
  SELECT run, record, epoch, nth, position, process, at, substring_index(message, ':', 1) AS source,
         CAST(ltrim('u', substring_index(message, ':', -1)) AS BIGINT) AS number, false AS begins
  FROM audit_ring_orderings LATERAL VIEW posexplode(messages) AS at, message
  UNION ALL
  SELECT run, record, epoch, nth, position, process, -1, TRIM(TRAILING '''' FROM member), NULL, true
  FROM (SELECT *, lag(members) OVER (PARTITION BY run, record, epoch ORDER BY nth) AS earlier FROM made)
       LATERAL VIEW explode(array_except(members, coalesce(earlier, array()))) AS member)
SELECT run, record, position, process
FROM (SELECT *, coalesce(lag(timestamp) OVER (PARTITION BY run, record, process, epoch ORDER BY position), 0)
                AS earlier
      FROM audit_rings
      WHERE kind = '{LIST}' OR (kind = '{SHOWN}' AND timestamp > 0 AND service IN {TOTAL}))
WHERE timestamp <= earlier
UNION ALL
SELECT run, record, position, process
FROM (SELECT *, lag(number) OVER its AS earlier, lag(begins) OVER its AS anew FROM steps
      WINDOW its AS (PARTITION BY run, record, epoch, source ORDER BY nth, at))
WHERE NOT begins AND NOT anew AND number <> earlier + 1
"""

WITHOUT_HOLES: Final = f"""
SELECT DISTINCT a.run, a.record, a.position, a.process
FROM audit_ring_events a
     JOIN (SELECT run, record, process, stays_ended, epoch, min(timestamp) AS begin FROM audit_ring_lists
           GROUP BY run, record, process, stays_ended, epoch) b
     ON b.run = a.run AND b.record = a.record AND b.process = a.process AND b.epoch = a.epoch
        AND b.stays_ended = a.stays_ended
     JOIN audit_ring_orderings o
     ON o.run = a.run AND o.record = a.record AND o.epoch = a.epoch AND o.position < a.position
        AND o.timestamp >= b.begin AND o.timestamp < a.timestamp + IF(a.kind = '{CONFIRMED}', 1, 0)
     LEFT JOIN audit_ring_got g
     ON g.run = a.run AND g.record = a.record AND g.process = a.process AND g.ordering_at = o.position
WHERE a.kind IN ('{ORDERED}', '{CONFIRMED}') AND (g.got_at IS NULL OR g.got_at >= a.position)
"""

AS_NAMED: Final = """
SELECT run, record, position, process
FROM (SELECT *, lag(timestamp) OVER its AS earlier, lag(last_timestamp) OVER its AS earlier_last,
             lag(next) OVER its AS named
      FROM audit_ring_orderings WINDOW its AS (PARTITION BY run, record, epoch ORDER BY nth))
WHERE earlier IS NOT NULL
      AND (timestamp = earlier OR timestamp <> earlier_last + 1 OR named <> process)
"""

SURVIVES: Final = """
SELECT s.run, s.record, s.after_at AS position, s.process, p.message
FROM audit_ring_lists s
     JOIN audit_ring_promises p
     ON p.run = s.run AND p.record = s.record AND p.epoch = s.epoch AND p.timestamp = s.timestamp
     LEFT JOIN audit_ring_delivered d
     ON d.run = s.run AND d.record = s.record AND d.process = s.process AND d.message = p.message
WHERE s.after_at IS NOT NULL AND NOT p.for_majority
      AND size(array_except(s.members, s.after_together)) <= p.k
      AND (d.got_in IS NULL OR d.got_in > s.position)
"""

_COURSES: Final = f"""
SELECT run, record, collect_list(course) AS courses
FROM (SELECT run, record, process,
             transform(array_sort(collect_list(struct(position, message))), one -> one.message) AS course
      FROM (SELECT *, lag(message) OVER (PARTITION BY run, record, process ORDER BY position) AS earlier
            FROM audit_ring_events
            WHERE kind = '{SHOWN}' AND resilience = 255 AND NOT withheld AND stay_at IS NOT NULL)
      WHERE NOT earlier <=> message
      GROUP BY run, record, process)
GROUP BY run, record
"""

_HEADS: Final = """
array_except(flatten(transform(rest, one -> slice(one, 1, 1))),
             flatten(transform(rest, one -> slice(one, 2, size(one)))))
"""
"""The messages that come behind no other one at any process."""

_IN_CIRCLES: Final = f"""
SELECT run, record, flatten(aggregate(
         sequence(1, size(array_distinct(flatten(courses)))), courses,
         (rest, step) -> element_at(transform(
           array(named_struct('rest', rest, 'heads', {_HEADS})),
           one -> transform(one.rest, course -> filter(course, it -> NOT array_contains(one.heads, it)))),
           1))) AS left
FROM ({_COURSES})
"""
"""What is left when all that comes first is taken away again and again: circles, and what follows them."""

ONE_PRIMARY: Final = f"""
SELECT run, record, position, process
FROM (SELECT *, lag(members) OVER (PARTITION BY run, record ORDER BY epoch, timestamp) AS earlier
      FROM audit_ring_places WHERE primary)
WHERE cause = 'failure' AND 2 * size(array_intersect(members, earlier)) <= size(earlier)
UNION ALL
SELECT s.run, s.record, s.next_primary_at, s.process
FROM audit_ring_lists s
     JOIN audit_ring_promises p
     ON p.run = s.run AND p.record = s.record AND p.epoch = s.epoch AND p.timestamp = s.timestamp
     LEFT JOIN audit_ring_delivered d
     ON d.run = s.run AND d.record = s.record AND d.process = s.process AND d.message = p.message
WHERE s.next_primary_at IS NOT NULL AND p.for_majority
      AND (d.got_in IS NULL OR d.got_in >= s.next_primary_at)
UNION ALL
SELECT s.run, s.record, min(s.position), min_by(s.process, s.position)
FROM audit_ring_events s JOIN ({_IN_CIRCLES}) c ON c.run = s.run AND c.record = s.record
WHERE s.kind = '{SHOWN}' AND s.resilience = 255 AND NOT s.withheld AND s.stay_at IS NOT NULL
      AND array_contains(c.left, s.message)
GROUP BY s.run, s.record
"""

MINIMUM: Final = f"""
WITH asked AS (
  SELECT run, record, process, max_by(minimum, position) AS minimum
  FROM audit_rings WHERE kind = 'ring_join_asked' GROUP BY run, record, process),
ordered AS (
  SELECT l.run, l.record, l.position, max_by(o.members, struct(o.timestamp, o.position)) AS members
  FROM audit_ring_lists l
       JOIN audit_ring_orderings o ON o.run = l.run AND o.record = l.record AND o.epoch = l.before_epoch
            AND o.timestamp > l.before_timestamp AND o.timestamp < l.timestamp AND size(o.members) > 0
  WHERE l.cause = 'failure' GROUP BY l.run, l.record, l.position),
stated AS (
  SELECT o.run, o.record, o.position, o.members, max(coalesce(a.minimum, l.before_minimum)) AS minimum
  FROM (SELECT *, explode(members) AS member FROM ordered) o
       JOIN audit_ring_lists l ON l.run = o.run AND l.record = o.record AND l.position = o.position
       LEFT JOIN asked a ON a.run = o.run AND a.record = o.record
            AND a.process = TRIM(TRAILING '''' FROM o.member)
  GROUP BY o.run, o.record, o.position, o.members)
SELECT run, record, position, process FROM audit_ring_events
WHERE is_suspended
      AND ((kind = '{SHOWN}' AND service IN {TOTAL} AND NOT next_act <=> '{LIST}')
           OR (kind = '{ORDERED}' AND size(messages) > 0))
UNION ALL
SELECT l.run, l.record, l.position, l.process
FROM audit_ring_lists l
     LEFT JOIN stated s ON s.run = l.run AND s.record = l.record AND s.position = l.position
WHERE l.before_at IS NOT NULL AND l.cause = 'failure'
      AND size(l.members) < CASE coalesce(s.minimum, l.before_minimum)
                                 WHEN 255 THEN size(coalesce(s.members, l.before_members))
                                 WHEN 254 THEN size(coalesce(s.members, l.before_members)) DIV 2 + 1
                                 ELSE coalesce(s.minimum, l.before_minimum) END
"""

GONE: Final = """
WITH numbered AS (
  SELECT *, row_number() OVER (PARTITION BY run, record, process, life_at ORDER BY position) AS nth
  FROM audit_ring_lists)
SELECT run, record, position, process, member
FROM (SELECT *, lag(nth) OVER (PARTITION BY run, record, process, life_at, member ORDER BY nth) AS earlier
      FROM (SELECT run, record, position, process, life_at, nth, explode(array_distinct(members)) AS member
            FROM numbered))
WHERE nth - earlier > 1
"""

_RING: Final = _PROCESSES.format("p.members")
_MAKER_AT: Final = f"array_position({_RING}, m.process)"

JOINER: Final = f"""
WITH made AS (
  SELECT run, record, epoch, timestamp, min_by(process, position) AS process, min_by(next, position) AS next
  FROM audit_ring_orderings GROUP BY run, record, epoch, timestamp)
SELECT p.run, p.record, p.position, p.process
FROM audit_ring_places p
     JOIN made m ON m.run = p.run AND m.record = p.record AND m.epoch = p.epoch AND m.timestamp = p.timestamp
WHERE p.cause = 'join' AND p.who <> '' AND m.process <> TRIM(TRAILING '''' FROM p.who)
      AND (m.next <> TRIM(TRAILING '''' FROM p.who)
           OR ({_MAKER_AT} > 0 AND element_at({_RING}, CAST({_MAKER_AT} % size(p.members) + 1 AS INT))
               <> TRIM(TRAILING '''' FROM p.who)))
UNION ALL
SELECT run, record, position, process FROM audit_ring_lists
WHERE before_at IS NOT NULL AND cause = 'join' AND before_epoch = epoch AND array_contains(before_members, who)
UNION ALL
SELECT run, record, position, process
FROM (SELECT *, lag(members) OVER (PARTITION BY run, record, epoch ORDER BY timestamp) AS earlier
      FROM audit_ring_places)
WHERE filter(earlier, one -> array_contains(members, one))
      <> filter(members, one -> array_contains(earlier, one))
UNION ALL
SELECT run, record, position, process
FROM (SELECT *, first(IF(kind = '{LIST}', timestamp, NULL), true) OVER (
                  PARTITION BY run, record, process, epoch ORDER BY position
                  ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS begin
      FROM audit_rings WHERE kind IN ('{LIST}', '{SHOWN}'))
WHERE kind = '{SHOWN}' AND timestamp > 0 AND timestamp < begin
"""

FREED: Final = f"""
WITH seen AS (
  SELECT q.*, l.members AS present, f.begin AS first_timestamp
  FROM (SELECT *, last(IF(kind = '{LIST}', position, NULL), true) OVER (
                    PARTITION BY run, record, process ORDER BY position) AS list_at
        FROM audit_ring_events) q
       JOIN audit_ring_lists l ON l.run = q.run AND l.record = q.record AND l.position = q.list_at
            AND l.epoch = q.epoch
       JOIN (SELECT run, record, process, stays_ended, epoch, min(timestamp) AS begin FROM audit_ring_lists
             GROUP BY run, record, process, stays_ended, epoch) f
       ON f.run = q.run AND f.record = q.record AND f.process = q.process AND f.epoch = q.epoch
          AND f.stays_ended = q.stays_ended
  WHERE q.kind = 'ring_queue_seen'),
begun AS (
  SELECT *, greatest(first_timestamp, coalesce(max(kept_from) OVER (
              PARTITION BY run, record, process, stays_ended, epoch ORDER BY position
              ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), first_timestamp)) AS begin
  FROM seen),
freed AS (
  SELECT q.run, q.record, q.position, q.process, q.present, o.position AS ordering_at,
         max_by(l.members, l.timestamp) AS then
  FROM begun q
       JOIN audit_ring_orderings o ON o.run = q.run AND o.record = q.record AND o.epoch = q.epoch
            AND o.timestamp >= q.begin AND o.last_timestamp < q.kept_from
       JOIN audit_ring_places l ON l.run = q.run AND l.record = q.record AND l.epoch = q.epoch
            AND l.timestamp <= o.timestamp
  GROUP BY q.run, q.record, q.position, q.process, q.present, o.position),
needed AS (
  SELECT run, record, position, process, ordering_at, TRIM(TRAILING '''' FROM member) AS other
  FROM freed LATERAL VIEW explode(array_intersect(then, present)) AS member)
SELECT DISTINCT n.run, n.record, n.position, n.process, n.other
FROM needed n
     LEFT JOIN audit_ring_got g
     ON g.run = n.run AND g.record = n.record AND g.process = n.other AND g.ordering_at = n.ordering_at
WHERE g.got_at IS NULL OR g.got_at > n.position
"""

KEPT: Final = """
SELECT run, record, position, process FROM audit_rings
WHERE kind = 'ring_queue_seen' AND (kept_from < needed_from OR arrays_overlap(waiting, queued))
"""

ONE_HOLDER: Final = """
WITH given AS (
  SELECT *, row_number() OVER its AS nth, first_value(process) OVER its AS first_holder
  FROM audit_rings WHERE kind = 'ring_fence_given'
  WINDOW its AS (PARTITION BY run, record, lock, epoch, timestamp ORDER BY position))
SELECT run, record, position, process, lock FROM given
WHERE process <> first_holder OR NOT (primary OR partial)
UNION ALL
SELECT run, record, position, process, lock
FROM (SELECT *, lag(fence) OVER (PARTITION BY run, record, lock ORDER BY epoch, timestamp) AS earlier
      FROM given WHERE nth = 1 AND primary)
WHERE fence <= earlier
"""

HOLDER_ANSWERS: Final = f"""
SELECT run, record, position, process, message FROM audit_rings
WHERE kind = '{TOLD}' AND holder <> (process = owner)
UNION ALL
SELECT run, record, position, process, message
FROM (SELECT *, row_number() OVER (PARTITION BY run, record, process, message ORDER BY position) AS nth
      FROM audit_rings WHERE kind = '{TOLD}' AND holder AND NOT again)
WHERE nth > 1
"""

STRANGERS: Final = f"""
SELECT run, record, position, process, client, message
FROM (SELECT *, count(IF(kind = '{STRANGER_SHOWN}', 1, NULL)) OVER (
                  PARTITION BY run, record, process, stays_ended, client, message ORDER BY position
                  ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS shown_before
      FROM audit_ring_events WHERE kind IN ('{STRANGER_SHOWN}', '{STRANGER_ACKNOWLEDGED}'))
WHERE IF(kind = '{STRANGER_SHOWN}', shown_before > 0 AND NOT repeat, shown_before = 0)
"""

RESTS: Final = f"""
WITH ends AS (SELECT * FROM audit_rings WHERE kind = 'ring_end_seen'),
places AS (
  SELECT e.run, e.record, e.process, min(e.position) AS position,
         max_by(IF(l.kind = '{LIST}', struct(l.epoch, l.timestamp), NULL), l.position) AS place
  FROM ends e LEFT JOIN audit_rings l
       ON l.run = e.run AND l.record = e.record AND l.process = e.process AND l.kind IN ('{LIST}', '{ENDED}')
  WHERE NOT e.apart GROUP BY e.run, e.record, e.process)
SELECT run, record, position, process FROM ends
WHERE calls > 0 OR (NOT apart AND (unplaced > 0 OR idle_passes > idle_passes_max))
UNION ALL
SELECT run, record, position, process
FROM (SELECT *, max(place) OVER (PARTITION BY run, record) AS latest FROM places)
WHERE place IS NULL OR place <> latest
"""

LIMITS: Final = """
WITH wanted AS (
  SELECT l.run, l.record, l.position, l.process, l.minimum, member, max_by(a.minimum, a.position) AS asked
  FROM (SELECT *, explode_outer(members) AS member FROM audit_ring_lists) l
       LEFT JOIN audit_rings a ON a.run = l.run AND a.record = l.record AND a.kind = 'ring_join_asked'
            AND a.process = TRIM(TRAILING '''' FROM l.member) AND a.position < l.position
  GROUP BY l.run, l.record, l.position, l.process, l.minimum, member)
SELECT run, record, position, process FROM wanted
GROUP BY run, record, position, process, minimum HAVING minimum <> max(coalesce(asked, 1))
UNION ALL
SELECT run, record, position, process FROM audit_rings
WHERE (kind = 'ring_window_seen' AND unacknowledged_bytes > window_bytes)
      OR (kind = 'ring_packet_sent_again' AND times > allowed)
"""

VISITS: Final = f"""
SELECT a.run, a.record, a.position, a.process
FROM audit_ring_orderings a
     JOIN audit_ring_orderings b ON b.run = a.run AND b.record = a.record AND b.epoch = a.epoch
          AND b.nth >= a.nth AND b.nth < a.nth + size(a.ring) + 2
WHERE a.ring IS NOT NULL
GROUP BY a.run, a.record, a.position, a.process, a.ring
HAVING count(*) = size(a.ring) + 2 AND NOT bool_or(size(b.members) > 0 AND b.members <> a.ring)
       AND size(array_except({_PROCESSES.format("a.ring")}, collect_set(b.process))) > 0
"""
