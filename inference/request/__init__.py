"""What a request passes. `completions` calls the steps in this order:

1. `authenticate`  whose API key it carries
2. `parse`         what it asks for
3. `limits`        whether its tenant may ask now
4. `route`         which model and which pool serve it
5. `cache`         whether the answer is stored already
6. `coalesce`      whether the same question is in flight already; if not, an inference begins:
7. `generate`      the inference: it calls `tokenize` and `admit`, and then a replica of the pool
8. `answer`        what the client gets, as a whole or as a stream
9. `write_back`    what the cache stores, after the answer
"""
