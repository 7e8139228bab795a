"""OTLP in: what the contract asks (`contract`), what the bytes mean (`decode`), and the two transports that carry them."""
