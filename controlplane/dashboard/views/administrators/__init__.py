"""Pages that administrators alone see."""
