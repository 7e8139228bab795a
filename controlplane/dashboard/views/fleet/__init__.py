"""Pages of what people enter of the fleet."""
