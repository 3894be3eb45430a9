"""`hop monitor`: the operator's view of running daemons, and a hand on them, over their admin channels."""
