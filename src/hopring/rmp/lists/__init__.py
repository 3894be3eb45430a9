"""Changes of lists, and which lists may go on after a failure."""
