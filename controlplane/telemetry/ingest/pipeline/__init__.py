"""From the spool into the store: decode, group by trace, close the ledger, insert, move the checkpoint.

`traces` and `recent` decide (which traces are complete, which have been closed before); `sink` writes in order and never gives up;
`worker` is the loop around them, one process per shard of the trace ids.
"""
