"""Incidents of components: a part of the stack that is down, or objectives that nothing can judge.

`judge.py` decides (pure) from what the worker observed; `reading.py` reads that from the database; `watch.py` repeats it and hands
the alerts to `controlplane.incidents.decide.engine`; `text.py` and `words.py` say it.
"""
