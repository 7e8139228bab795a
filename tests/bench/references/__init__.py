"""Autoscalers that others have published, and an oracle that knows what comes: what the scaling law is compared with."""
