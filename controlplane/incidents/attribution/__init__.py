"""Whose budget was burned, by what, since when, and what was changed before: asked of the store once, and frozen."""
