"""A durable log that the members of a group have in common, on the order of the group and on their disks."""
