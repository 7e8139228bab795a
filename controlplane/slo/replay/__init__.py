"""Replays an objective over recorded history: it is judged at the end of every step, as the controller would have judged it then."""
