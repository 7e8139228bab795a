"""Prometheus remote write, 1.0 and 2.0. https://prometheus.io/docs/specs/prw/remote_write_spec_2_0/"""
