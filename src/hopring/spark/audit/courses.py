"""In which order a process did things: one row per stay, made in one pass over each stay in its order.

A running maximum says whether an event came too late within a stay. What was before the stay is its highest
place so far, carried over on the small table of stays: a long life is as many pieces of work as it has stays.
"""

COURSES = """
WITH steps AS (
  SELECT d.stay_id, d.position, false AS sending, d.late, m.place, m.service
  FROM audit_deliveries d JOIN audit_messages m ON m.key = d.key WHERE m.service > 1
  UNION ALL
  SELECT s.stay_id, s.position, true, false, m.place, s.service
  FROM audit_sends s JOIN audit_messages m ON m.key = s.key WHERE s.service > 1),
passed AS (
  SELECT *, NOT sending AND service >= 4 AS agreed, max(place) OVER earlier AS top,
         max(CASE WHEN NOT sending AND service >= 4 THEN place END) OVER earlier AS top_agreed
  FROM steps
  WINDOW earlier AS (PARTITION BY stay_id ORDER BY position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)),
done AS (
  SELECT stay_id, max(place) AS highest, max(CASE WHEN agreed THEN place END) AS highest_agreed,
         min(CASE WHEN agreed THEN place END) AS lowest_agreed,
         min(CASE WHEN NOT sending THEN place END) AS lowest_delivered,
         min(CASE WHEN sending THEN place END) AS lowest_sent,
         max(CASE WHEN agreed AND NOT late THEN place END) AS agreed_early,
         max(CASE WHEN agreed AND late THEN place END) AS agreed_late,
         min(CASE WHEN sending AND place <= top THEN position END) AS sent_below,
         min(CASE WHEN NOT sending AND place < top_agreed THEN position END) AS came_late,
         bool_or(agreed AND place < top_agreed) AS unsorted
  FROM passed GROUP BY stay_id)
SELECT s.run, s.process, s.stay, s.id, s.room, s.nth, s.view, d.agreed_early, d.agreed_late, d.sent_below,
       d.came_late, d.lowest_sent, d.lowest_delivered, d.lowest_agreed, d.unsorted,
       max(d.highest) OVER earlier AS carried, max(d.highest_agreed) OVER earlier AS carried_agreed
FROM done d JOIN audit_stays s ON s.id = d.stay_id
WINDOW earlier AS (PARTITION BY s.run, s.process ORDER BY s.stay
                   ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
"""
"""By stay: its events that came too late, and what was highest before it."""

FIFO = """
WITH steps AS (
  SELECT d.stay_id, m.session, d.position, m.sent_at, m.service
  FROM audit_deliveries d JOIN audit_messages m ON m.key = d.key WHERE m.service > 1 AND m.sent),
passed AS (
  SELECT stay_id, session, position, sent_at, service,
         max(CASE WHEN service >= 3 THEN sent_at END) OVER earlier AS last
  FROM steps
  WINDOW earlier AS (PARTITION BY stay_id, session ORDER BY position
                     ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)),
done AS (
  SELECT stay_id, session, max(CASE WHEN service >= 3 THEN sent_at END) AS latest, min(sent_at) AS oldest,
         min(CASE WHEN sent_at < last THEN position END) AS came_late
  FROM passed GROUP BY stay_id, session)
SELECT s.run, s.process, s.stay, s.id, s.view, d.session, d.came_late, d.oldest,
       max(d.latest) OVER (PARTITION BY s.run, s.process, d.session ORDER BY s.stay
                           ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS carried
FROM done d JOIN audit_stays s ON s.id = d.stay_id
"""
"""By stay and sender: a delivery that came after one that was sent later."""
