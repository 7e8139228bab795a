"""Functions compiled to machine code: plain Python in every respect but speed.

Compiled at first use, which takes seconds, and then kept in a cache folder: `NUMBA_CACHE_DIR` where it is set, else the user's cache,
else WEIR_HOME where that cannot be written to. Never in the source tree.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


def _cache_folder() -> Path:
    user = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "weir"
    try:
        user.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(os.environ.get("WEIR_HOME", ".weir")).expanduser().absolute() / "cache"
    return user


os.environ.setdefault("NUMBA_CACHE_DIR", str(_cache_folder()))  # read when numba is imported

import numba  # noqa: E402


def compiled(function: F) -> F:
    """Without the interpreter's lock, so that it may run beside other threads. Indexes are not checked: whoever writes one does that."""
    return cast(F, numba.njit(cache=True, nogil=True)(function))
