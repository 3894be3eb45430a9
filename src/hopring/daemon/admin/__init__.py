"""The daemon described to people and programs: admin channel, status, metrics."""
