"""Kubernetes. Only this package imports its client."""
