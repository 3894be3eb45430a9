"""Links to other clusters: frames, channels, connections, and who has them when."""
