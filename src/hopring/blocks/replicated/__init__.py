"""A map of the members of a group, and the forms of map, log and queue without an event loop."""
