"""A fit that ends its process for some series: imported there by name."""

import os
import signal

from controlplane.planning.core.fit import FitRequest, FitResult, fit


def breaking(request: FitRequest) -> FitResult:
    """Ends its process where the model is "bad"."""
    if request.name.startswith("bad "):
        os.kill(os.getpid(), signal.SIGKILL)
    return fit(request)
