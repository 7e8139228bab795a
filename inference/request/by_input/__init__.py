"""The cache by input: a list of inputs to embed sends only those that are not kept (docs/gateway.md#lists-of-inputs).

`lists` has the steps, `store` keeps items in Redis. What decides is in `inference.core.passing`.
"""
