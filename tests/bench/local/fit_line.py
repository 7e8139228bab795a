"""Times of a replica from measurements, as straight lines."""

import numpy as np

from forecasting.series import F64


def fit_line(x: F64, y: F64) -> tuple[float, float]:
    """The straight line a + b·x of least squared relative error, with a and b 0 or more. Returns (a, b).

    `y` must be above 0. Raises ValueError where there is nothing to fit.
    """
    kept = np.isfinite(x) & np.isfinite(y) & (y > 0)
    x, y = x[kept], y[kept]
    if not len(x):
        raise ValueError("there are no measurements above 0 to fit a line to: measure some requests")
    level = float(np.sum(1 / y) / np.sum(1 / y**2))
    if len(np.unique(x)) == 1:
        return level, 0.0
    base, slope = np.linalg.lstsq(np.column_stack([1 / y, x / y]), np.ones_like(y), rcond=None)[0]
    if slope < 0:
        return level, 0.0
    if base < 0:
        return 0.0, float(np.sum(x / y) / np.sum((x / y) ** 2))
    return float(base), float(slope)
