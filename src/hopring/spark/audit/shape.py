"""What the thesis assumes of every trace: assumptions 2.1 and 2.3, definition 2.7."""

from hopring.check.evs import shape
from hopring.check.properties.sql import RELIABLE
from hopring.spark.audit.holdings import marked
from hopring.spark.audit.masks import Masks
from hopring.spark.audit.messages import Odd
from hopring.spark.audit.property import Property


def one_life(_m: Masks) -> str:
    """Recover first, crash last, and each event in the view that its process is in."""
    return """
    SELECT l.run, l.process, 0 AS position, 'is the first and no recover' AS flaw
    FROM audit_lives l LEFT ANTI JOIN audit_small s
         ON s.run = l.run AND s.process = l.process AND s.position = 0 AND s.kind = 'recover'
    UNION ALL
    SELECT run, process, position, 'is a second recover without a new incarnation'
    FROM audit_small WHERE kind = 'recover' AND position > 0
    UNION ALL
    SELECT s.run, s.process, s.position + 1, 'comes after the crash'
    FROM audit_small s JOIN audit_lives l ON l.run = s.run AND l.process = s.process
    WHERE s.kind = 'crash' AND s.position < l.high
    UNION ALL
    SELECT run, process, misplaced_signal, 'names another view than it is in'
    FROM audit_stays WHERE misplaced_signal IS NOT NULL AND stay > 0
    UNION ALL
    SELECT h.run, s.process, d.position, 'names another view than it is in'
    FROM audit_holdings h JOIN audit_deliveries d ON d.place = h.place AND d.room = h.room
         JOIN audit_stays s ON s.id = d.stay_id
    WHERE h.misplaced AND h.view IS NOT NULL AND d.misplaced
    """


def sent_once(_m: Masks) -> str:
    """No message is sent twice, none in another's name, and the stamp is of the view that the send names."""
    return f"""
    SELECT l.run, max_by(l.process, s.position) AS process, max(s.position) AS position, 'is sent twice' AS flaw
    FROM audit_sends s JOIN audit_twice t ON t.key = s.key JOIN audit_stays l ON l.id = s.stay_id
    GROUP BY l.run, s.key
    UNION ALL
    SELECT run, process, position, 'is sent in the name of another'
    FROM audit_odd WHERE {marked(Odd.NAME, "odd")}
    UNION ALL
    SELECT run, process, position, 'has a stamp of another view than it was sent in'
    FROM audit_odd WHERE {marked(Odd.STAMP, "odd")}
    """


def one_stamp(_m: Masks) -> str:
    """Every receiver knows a message by the stamp it was sent with, and no two messages share one."""
    return f"""
    SELECT m.run, m.message, o.message AS other_message, 'has the same stamp as' AS flaw
    FROM audit_alike a JOIN audit_named m ON m.place = a.place
         JOIN audit_named o ON o.place = a.other_place
    UNION ALL
    SELECT run, message, message, 'was delivered with another stamp than the first of'
    FROM audit_holdings WHERE service IN {RELIABLE} AND other_stamp
    """


PROPERTIES = (
    Property(shape.LIFE, "assumption 2.1", one_life, "{event} {flaw}"),
    Property(shape.UNIQUE, "assumption 2.3", sent_once, "the message of {event} {flaw}"),
    Property(shape.ORD, "definition 2.7", one_stamp, "{message} {flaw} {other_message}"),
)
