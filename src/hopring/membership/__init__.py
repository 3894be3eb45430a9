"""Daemon membership: views that stay meaningful through crashes, partitions and merges (EVS among daemons)."""
