"""The one script that is not ours to write: plotly.js, fetched at set-up by `deploy/assets.py`, else out of plotly's wheel."""

import functools

from django.contrib.staticfiles import finders

SMALL = "vendor/plotly-cartesian.min.js"
WHOLE = "vendor/plotly.min.js"


@functools.cache
def plotly() -> str:
    """Static name of plotly.js: the bundle with cartesian charts alone (410 KB compressed) where set-up could fetch it."""
    return SMALL if finders.find(SMALL) else WHOLE
