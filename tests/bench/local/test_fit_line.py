"""The lines that a replica's times are taken from."""

import numpy as np
import pytest

from tests.bench.local.fit_line import fit_line


def test_a_line_is_fitted_by_relative_error_and_never_below_zero() -> None:
    x = np.array([1.0, 10, 100, 1000])
    assert fit_line(x, 5 + 0.1 * x) == pytest.approx((5, 0.1))
    assert fit_line(x, 2 * x - 0.5)[0] == 0
    assert fit_line(x, np.array([9.0, 8, 7, 6]))[1] == 0
    assert fit_line(np.array([3.0, 3.0]), np.array([2.0, 2.0])) == (2.0, 0.0)
    with pytest.raises(ValueError, match="measure some requests"):
        fit_line(np.array([1.0]), np.array([np.nan]))
