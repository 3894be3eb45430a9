"""Membership of daemons: views and ordered messages through crashes, partitions and merges (EVS)."""
