"""Reading spools in Spark: options, plans, and the readers that Spark calls."""
