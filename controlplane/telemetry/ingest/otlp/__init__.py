"""Receives OTLP: the protocol's rules (`contract`), decoding (`decode`), and the two transports (`http`, `grpc`)."""
