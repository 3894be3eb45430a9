"""The disk of a member of the long-haul service: its log, bodies that wait, and files."""
