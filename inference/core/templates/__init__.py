"""Lays messages out as the text that a model was trained on."""
