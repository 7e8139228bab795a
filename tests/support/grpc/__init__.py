"""Servers that gRPC clients are held to."""
