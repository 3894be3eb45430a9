"""Tables over the events of rings, which the queries of R1 to R17 share.

Below       the table `audit_rings`: the events of all records of rings, with a column for each field.
Invariants  positions count the events of a record; a row stands for one event of it. Nothing is asked of times.
"""

from typing import Final

LIST: Final = "ring_list_seen"
SIGNAL: Final = "ring_list_closed"
ENDED: Final = "ring_stay_ended"
SUSPENDED: Final = "ring_suspended"
SENT: Final = "ring_data_sent"
BODY: Final = "ring_body_seen"
ORDERED: Final = "ring_slots_ordered"
HEARD: Final = "ring_ordering_seen"
CONFIRMED: Final = "ring_pass_confirmed"
SHOWN: Final = "ring_data_shown"
TOLD: Final = "ring_told_to_answer"
STRANGER_SHOWN: Final = "ring_stranger_shown"
STRANGER_ACKNOWLEDGED: Final = "ring_stranger_acknowledged"

_WITH_DELIVERIES: Final = ", ".join(
    [f"'{kind}'" for kind in (SHOWN, SIGNAL, STRANGER_SHOWN, STRANGER_ACKNOWLEDGED, TOLD)]
)

EVENTS: Final = f"""
SELECT *, IF(edge = '{LIST}', edge_at, NULL) AS stay_at
FROM (SELECT *,
             last(IF(kind IN ('{LIST}', '{ENDED}'), position, NULL), true) OVER earlier AS edge_at,
             last(IF(kind IN ('{LIST}', '{ENDED}'), kind, NULL), true) OVER earlier AS edge,
             last(IF(kind = '{SIGNAL}', position, NULL), true) OVER earlier AS signal_at,
             coalesce(last(IF(kind IN ('{SUSPENDED}', '{LIST}', '{ENDED}'), kind, NULL), true) OVER earlier
                      = '{SUSPENDED}', false) AS is_suspended,
             count(IF(kind = '{ENDED}', 1, NULL)) OVER earlier AS stays_ended,
             first(IF(kind IN ({_WITH_DELIVERIES}), NULL, kind), true) OVER later AS next_act
      FROM audit_rings
      WINDOW earlier AS (PARTITION BY run, record, process ORDER BY position
                         ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
             later AS (PARTITION BY run, record, process ORDER BY position
                       ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING))
"""
"""Events with the list that their process is in, whether it is suspended, and what it does after deliveries."""

LISTS: Final = f"""
SELECT *, first(IF(primary, position, NULL), true) OVER (
            PARTITION BY run, record, process, life_at ORDER BY position
            ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS next_primary_at
FROM (SELECT *, last(IF(before_at IS NULL, position, NULL), true) OVER (
                  PARTITION BY run, record, process ORDER BY position) AS life_at
      FROM (SELECT run, record, position, kind, process, epoch, timestamp, members, together, cause, who,
                   primary, minimum, stays_ended, stay_at AS before_at,
                   IF(stay_at IS NULL, NULL, lag(members) OVER its) AS before_members,
                   IF(stay_at IS NULL, NULL, lag(epoch) OVER its) AS before_epoch,
                   IF(stay_at IS NULL, NULL, lag(timestamp) OVER its) AS before_timestamp,
                   IF(stay_at IS NULL, NULL, lag(minimum) OVER its) AS before_minimum,
                   IF(lead(kind) OVER its = '{LIST}', lead(position) OVER its, NULL) AS after_at,
                   IF(lead(kind) OVER its = '{LIST}', lead(together) OVER its, NULL) AS after_together
            FROM audit_ring_events WHERE kind IN ('{LIST}', '{ENDED}')
            WINDOW its AS (PARTITION BY run, record, process ORDER BY position))
      WHERE kind = '{LIST}')
"""
"""Stays in lists, with the lists before and after in the same stay of the process in the ring."""

PLACES: Final = """
SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY run, record, epoch, timestamp ORDER BY position)
                         AS installation
               FROM audit_ring_lists)
WHERE installation = 1
"""
"""Lists as they were first installed."""

ORDERINGS: Final = f"""
SELECT run, record, position, process, epoch, timestamp, next, messages, members,
       timestamp + size(messages) AS last_timestamp,
       row_number() OVER its AS nth,
       last(IF(size(members) > 0, members, NULL), true) OVER its AS ring
FROM audit_rings WHERE kind = '{ORDERED}'
WINDOW its AS (PARTITION BY run, record, epoch ORDER BY timestamp, position)
"""
"""ACKs and New Lists by rising timestamps, with the members of the list that holds for each."""

GOT: Final = f"""
SELECT h.run, h.record, h.process, o.ordering_at,
       greatest(max(h.heard_at), coalesce(max(b.body_at), -1)) AS got_at
FROM (SELECT run, record, process, epoch, timestamp, min(position) AS heard_at
      FROM audit_rings WHERE kind IN ('{ORDERED}', '{HEARD}')
      GROUP BY run, record, process, epoch, timestamp) h
     JOIN (SELECT run, record, epoch, timestamp, position AS ordering_at, explode_outer(messages) AS message
           FROM audit_ring_orderings) o
     ON o.run = h.run AND o.record = h.record AND o.epoch = h.epoch AND o.timestamp = h.timestamp
     LEFT JOIN (SELECT run, record, process, message, min(position) AS body_at
                FROM audit_rings WHERE kind IN ('{BODY}', '{SENT}')
                GROUP BY run, record, process, message) b
     ON b.run = h.run AND b.record = h.record AND b.process = h.process AND b.message = o.message
GROUP BY h.run, h.record, h.process, o.ordering_at
HAVING NOT bool_or(o.message IS NOT NULL AND b.body_at IS NULL)
"""
"""By process and ordering: from which event on it has the ordering, and the bodies of its messages."""

DELIVERED: Final = f"""
SELECT run, record, process, message, min(stay_at) AS got_in
FROM audit_ring_events WHERE kind = '{SHOWN}' AND NOT withheld AND stay_at IS NOT NULL
GROUP BY run, record, process, message
"""
"""By process and message: the first of its lists in which it was delivered."""

PROMISES: Final = f"""
SELECT s.run, s.record, l.epoch, l.timestamp, s.message, s.resilience = 255 AS for_majority,
       max(s.resilience) AS k
FROM audit_ring_events s
     JOIN audit_ring_lists l ON l.run = s.run AND l.record = s.record AND l.position = s.stay_at
WHERE s.kind = '{SHOWN}' AND s.resilience > 0 AND NOT s.withheld
      AND (s.signal_at IS NULL OR s.signal_at < s.stay_at)
GROUP BY s.run, s.record, l.epoch, l.timestamp, s.message, s.resilience = 255
"""
"""By list: the resilient messages that somebody delivered in it before its signal."""

RING_TABLES: Final = {
    "ring_events": EVENTS,
    "ring_lists": LISTS,
    "ring_places": PLACES,
    "ring_orderings": ORDERINGS,
    "ring_got": GOT,
    "ring_delivered": DELIVERED,
    "ring_promises": PROMISES,
}
"""In the order in which they are made of each other."""
