"""What a tenant wants of texts: how long they may be, and what must not be in them."""
