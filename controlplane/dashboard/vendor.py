"""Finds plotly.js, which `deploy/assets.py` fetches at set-up, else in plotly's wheel."""

import functools

from django.contrib.staticfiles import finders

SMALL = "vendor/plotly-cartesian.min.js"
WHOLE = "vendor/plotly.min.js"


@functools.cache
def plotly() -> str:
    """Static name of plotly.js: the bundle with cartesian charts alone (410 KB compressed) where set-up could fetch it."""
    return SMALL if finders.find(SMALL) else WHOLE
