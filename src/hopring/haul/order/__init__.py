"""The two multicasts among clusters: descriptors, delays, and the wide set that has both."""
