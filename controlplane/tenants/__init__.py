"""What a tenant sees of itself, out of several rooms."""
