"""Metrics: samples from OTLP, Prometheus scrape and remote write, and functions to evaluate stored samples.

The receiver checks all samples and writes them to the spool as one kind of record (`batch`), which the pipeline inserts. `core` evaluates
samples that the store returns. See docs/metrics.md.
"""
