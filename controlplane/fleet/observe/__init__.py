"""What the worker sees of the stack that really runs.

`ready.py` (our own processes), `redis_info.py` and `triton.py` turn what a component answered into a `Reading`: pure.
`probes.py` asks, `round.py` asks everyone at once, `record.py` writes down what was seen; `loop.py` repeats that.
"""
