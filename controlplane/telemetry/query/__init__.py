"""Reads questions about telemetry from URLs (a time range, filters, a quantile), and answers them for pages and the API."""
