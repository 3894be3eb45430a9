"""A durable queue of jobs on a replicated log, whose workers do each job at least once."""
