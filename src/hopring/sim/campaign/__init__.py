"""The campaign: thousands of small worlds, each drawn from one seed, each judged by the checks."""
