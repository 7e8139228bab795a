"""Everything on one machine, out of wheels: no root, no services to install."""
