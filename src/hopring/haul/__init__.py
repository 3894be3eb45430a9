"""The long-haul service: causal and total order among independent clusters, whose links live for minutes."""
