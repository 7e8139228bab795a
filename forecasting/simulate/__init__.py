"""Replays traffic against a pool of replicas, request by request, under a policy that scales it."""
