"""One script per claim about speed, each beside its peers in the same run: `python -m benchmarks`."""
