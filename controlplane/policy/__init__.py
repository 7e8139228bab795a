"""Policies: what owners want done about load, and what each tick decides and does about it."""
