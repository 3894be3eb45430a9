"""Order among bundles: Lamport stamps now, delivery rules on top of them."""
