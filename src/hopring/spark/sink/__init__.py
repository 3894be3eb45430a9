"""Writes to spools and live groups from Spark: options, staged batches, and the writers that Spark calls."""
