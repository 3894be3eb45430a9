"""`hop doctor`: checks of this host and of the daemons that answer, with a remedy for each finding."""
