"""The durable queue between the receivers and the pipeline: what was acknowledged lies here until its rows are in the store.

`writer` appends and commits in groups, `reader` follows, `checkpoint` says how far the store has it all, `frame` is the format on disk.
"""
