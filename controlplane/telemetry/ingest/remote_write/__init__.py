"""Prometheus remote write 1.0, as Prometheus sends it unless it is configured otherwise. https://prometheus.io/docs/specs/prw/remote_write_spec/"""
