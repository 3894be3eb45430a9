"""Reads spools in Spark: options, plans of tasks, progress of streams, and the readers that Spark calls."""
