"""Incidents: what opens, silences, sends and resolves them."""
