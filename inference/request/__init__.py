"""What a request passes. `completions` calls the steps in this order:

1. `authenticate`  whose API key it carries
2. `parse`         what it asks for
3. `route`         which model and which pool serve it, and what of the question the pool's servers take
4. `limits`        whether its tenant and its key may ask now (`limit_script` counts for all gateways)
5. `cache`         whether the answer is stored already; the lookup goes out together with the limits
6. `coalesce`      whether the same question is in flight already; if not, an inference begins, which is a `Work`:
7. `generate`      the inference, at the pool and then at its fallbacks, each of which goes through
   `prepare`       the prompt: its tokens, and its text where the server takes one
   `admit`         a place in the pool
   `attempts`      replicas of the pool: retries and hedges, each an `attempt`, whose answer `parsed_stream` reads
8. `answer`        what the client gets, as a whole or as a stream
9. `write_back`    what the cache stores, after the answer
"""
