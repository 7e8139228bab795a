"""Pools as Kubernetes objects, from plain values."""
