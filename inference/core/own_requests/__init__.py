"""Requests that are no users': warm-ups of new replicas, and benchmarks."""
