"""TLS of what listens, and which connections are in the clear."""
