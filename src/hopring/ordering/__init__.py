"""Order among bundles: Lamport stamps and delivery rules."""
