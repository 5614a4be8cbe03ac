"""Benchmarks against the peers: equal results first, then ratios. Run with `make bench`."""
