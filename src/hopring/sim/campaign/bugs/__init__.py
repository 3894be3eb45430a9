"""Planted bugs: deliberate mistakes in the real code that the campaign has to find."""
