"""Ways to a screen: by a few letters, and by a view that was saved."""
