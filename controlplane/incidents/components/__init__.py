"""Incidents of components: a part of the stack that is down, or objectives that cannot be judged.

`core/judge.py` decides from what the worker observed. `observed.py` reads that from the database. `core/page_text.py` and `core/words.py`
put it into words. `controlplane.incidents.decide.watch` makes incidents of it.
"""
