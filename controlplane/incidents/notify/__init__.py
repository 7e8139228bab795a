"""Makes notices of incidents, and delivers them."""
