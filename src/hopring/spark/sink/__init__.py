"""Sinks to spools and live groups: their options, and batches that are published exactly once. No pyspark.

After a crash Spark repeats its last batch under the same number.

Spool       the rows of a batch and its number are one append: both are in the spool or neither is, so the
            spool tells whether the batch is there. Rows for several groups are one append to each spool; a
            repeated batch is appended to the spools that lack it.
Live group  a batch is many messages, so a crash may leave a part of it delivered. The client library of a
            receiver drops messages that it received before, by the group, the sender's name, batch and index.
            For that the repeated batch needs the same rows in the same order, which Spark does not promise
            behind a shuffle. So the driver writes a batch to its *outbox* before it sends the first message,
            and always sends the stored rows.
"""
