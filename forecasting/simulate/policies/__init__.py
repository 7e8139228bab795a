"""Policies that others have published, for comparison, and the oracle that knows what comes."""
