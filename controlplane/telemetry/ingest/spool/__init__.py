"""The durable queue between the receivers and the pipeline: acknowledged requests stay here until their rows are in the store.

`writer` appends and commits in groups, `reader` follows, `checkpoint` is the position up to which everything is in the store, `frame` is
the format on disk.
"""
