"""Runs everything on one machine, out of Python wheels: no root, no services to install."""
