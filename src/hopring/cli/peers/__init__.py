"""`hop rmp`, and the checks of `hop doctor` for peers."""
