"""Clients: the workloads that hopring's speed is judged by, each as `hop bench` runs it.

python -m hopring.bench.suite.clients [WORD ...]     only those whose names have one of these words
"""

import json
import subprocess
import sys
from typing import Final

CASES: Final = {
    **{
        f"flood of {size} B, {service}": f"throughput --size {size} --service {service}"
        for service in ("agreed", "safe")
        for size in (100, 1024, 8192, 65536)
    },
    "flood of 1024 B, one multicast each": "throughput --by-one",
    "flood of 1024 B, each message to another group": "throughput --groups 64",
    "flood of 1024 B, each message alone": "throughput --single --each",
    "flood of 1024 B, three sites": "throughput --sites 3",
    "flood of 1024 B, in the clear and by TLS": "throughput --tls --runs 5",
    "flood of 100 B, in the clear and by TLS": "throughput --tls --runs 5 --size 100",
    "round trip, agreed": "latency --service agreed",
    "round trip, safe": "latency --service safe",
    "round trip, agreed, after silence": "latency --probes 300 --every-ms 20",
    "round trip, agreed, half load": "latency --probes 1000 --half-load",
    "round trip, three sites": "latency --probes 300 --sites 3",
    "failover in a site": "failover --runs 3",
    "failover, three sites": "failover --runs 3 --sites 3",
    "cpu": "cpu",
}
LEFT_OUT: Final = frozenset({"bench", "runs", "window", "pace_per_second", "warm_seconds"})


def measure(words: list[str]) -> int:
    """Prints a JSON line for each workload; returns how many failed."""
    failed = 0
    for case, command in CASES.items():
        if words and not any(word in case for word in words):
            continue
        hop = [sys.executable, "-m", "hopring.cli.main", "bench", *command.split(), "--json"]
        done = subprocess.run(hop, stdout=subprocess.PIPE, text=True, check=False)
        failed += done.returncode != 0
        for line in done.stdout.splitlines():
            figures = {key: value for key, value in json.loads(line).items() if key not in LEFT_OUT}
            print(json.dumps({"case": case, **figures}), flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(measure(sys.argv[1:]))
