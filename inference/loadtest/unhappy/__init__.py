"""Clients that behave badly, each with what a server should make of it, beside good requests that should not notice."""
