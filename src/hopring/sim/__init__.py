"""Virtual time and a faulty network that drive the real protocol objects."""
