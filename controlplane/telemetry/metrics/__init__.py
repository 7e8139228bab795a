"""Metrics in: OTLP, Prometheus scrape and remote write become samples; and pure functions that read them again.

Whatever comes is judged in the receiver and becomes one kind of record in the spool (`batch`), which the pipeline inserts.
`counters` and `histogram` read what the store gives back. See docs/metrics.md.
"""
