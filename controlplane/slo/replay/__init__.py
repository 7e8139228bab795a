""" "Would have paged": an objective judged at every step of recorded history, as the controller would have judged it then.

Everything but `recorded` is pure. A step is judged at its end, on whole steps; so a tick between two of them is not told apart.
"""
