"""Decides what becomes of incidents at each tick, and writes it down."""
