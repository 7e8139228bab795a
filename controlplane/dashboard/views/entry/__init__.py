"""Ways in: the first steps, and links for those who do not log in."""
