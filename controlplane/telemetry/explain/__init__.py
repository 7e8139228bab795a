"""Explains what is different about slow requests, and which known causes they show, from figures of the store."""
