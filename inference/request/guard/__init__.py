"""The step between a request's parse and its policy, and the one that its answer goes through, where its tenant has rules."""
