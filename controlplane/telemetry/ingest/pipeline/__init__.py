"""Moves telemetry from the spool into the store: decode, group by trace, close the ledger, insert, move the checkpoint.

`traces` decides which traces are complete, `closed_traces` which were closed before. `sink` writes in order and retries until the store
answers. `worker` is the loop around them; there is one process per shard of the trace ids.
"""
