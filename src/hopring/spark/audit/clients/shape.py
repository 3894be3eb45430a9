"""What is assumed of every trace of clients: assumptions 2.1 and 2.3, definition 2.7."""

from hopring.check.evs import shape
from hopring.check.evs_c.words import EVS_C
from hopring.check.properties.sql import RELIABLE
from hopring.spark.audit.masks import Masks
from hopring.spark.audit.property import Property


def one_session(_m: Masks) -> str:
    """It connects once and first, asks for nothing after its end, and signals name the view they are in."""
    return """
    SELECT run, process, 0 AS position, 'is its first and no connect' AS flaw
    FROM audit_sessions WHERE NOT connected
    UNION ALL
    SELECT run, process, position, 'comes a second time'
    FROM audit_small WHERE kind = 'connect' AND position > 0
    UNION ALL
    SELECT run, process, gone_at + 1, 'comes after its end' FROM audit_sessions WHERE gone_at < high
    UNION ALL
    SELECT s.run, s.process, e.position, 'comes after it had disconnected'
    FROM audit_small e JOIN audit_sessions s ON s.run = e.run AND s.process = e.process
    WHERE e.position > s.asked_end AND e.kind IN ('join', 'leave', 'disconnect')
    UNION ALL
    SELECT s.run, s.process, e.position, 'comes after it had disconnected'
    FROM audit_sends e JOIN audit_sessions s ON s.id = e.session_id WHERE e.position > s.asked_end
    UNION ALL
    SELECT run, process, misplaced_signal, 'names another view than it is in'
    FROM audit_stays WHERE misplaced_signal IS NOT NULL
    UNION ALL
    SELECT run, process, position, 'is of a group that it was not in'
    FROM (SELECT *, lag(kind) OVER (PARTITION BY run, process, group_name ORDER BY position) AS before
          FROM audit_small WHERE kind IN ('view', 'left'))
    WHERE kind = 'left' AND NOT (before <=> 'view')
    """


def sent_once(_m: Masks) -> str:
    """No message is sent twice, and none in another's name."""
    return """
    SELECT s.run, s.process, s.position, 'is sent twice' AS flaw
    FROM audit_sends s
         JOIN (SELECT key, max(seen) AS seen FROM audit_sends GROUP BY key HAVING count(*) > 1) k
         ON k.key = s.key AND k.seen = s.seen
    UNION ALL
    SELECT run, process, position, 'is sent in the name of another' FROM audit_sends WHERE process <> sender
    """


def one_place(_m: Masks) -> str:
    """Every receiver knows a message by the same stamp, and no two messages share one."""
    return f"""
    SELECT one.run, one.message, other.message AS other_message, 'has the same stamp as' AS flaw
    FROM (SELECT min(place) AS low, max(place) AS high
          FROM audit_messages WHERE service IN {RELIABLE} GROUP BY stamp, xxhash64(run) HAVING count(*) > 1) k
         JOIN audit_messages one ON one.place = k.low JOIN audit_messages other ON other.place = k.high
    UNION ALL
    SELECT run, message, message, 'was delivered with another stamp than the first of'
    FROM audit_messages WHERE low_stamp <> high_stamp AND service IN {RELIABLE}
    """


PROPERTIES = (
    Property(EVS_C + shape.LIFE, "assumption 2.1", one_session, "{event}: this {flaw}"),
    Property(EVS_C + shape.UNIQUE, "assumption 2.3", sent_once, "the message of {event} {flaw}"),
    Property(EVS_C + shape.ORD, "definition 2.7", one_place, "{message} {flaw} {other_message}"),
)
