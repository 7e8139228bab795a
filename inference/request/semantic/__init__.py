"""The semantic cache: after an exact miss, the answer of a request that says the same (docs/semantic-cache.md).

`lookup` has the steps, `embedder` makes vectors, `store` keeps them in Redis, `labels` shares the evidence. What decides is in
`inference.core.semantic`.
"""
