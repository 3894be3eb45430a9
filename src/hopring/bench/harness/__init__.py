"""Parts that all benches share: workloads, worker processes, daemons, counters in shared memory, figures."""
