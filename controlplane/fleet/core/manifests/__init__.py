"""The serving stack as Kubernetes objects: pools, Redis and the API tier, from plain values."""
