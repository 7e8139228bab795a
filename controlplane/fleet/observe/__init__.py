"""Observes the components of the running stack.

`core/` turns an answer into a `Reading`: `ready.py` for our own processes, `redis_info.py` and `triton.py`.
`probes.py` sends one probe, `round.py` probes all components at once, `record.py` stores the result, and `loop.py` repeats that.
"""
