"""Functions for processes of their own: they are imported there by name."""

import os
import signal
import time
from pathlib import Path

import numpy as np


def double(value: int) -> int:
    return 2 * value


def act(what: str) -> str:
    """Does what the text says."""
    match what.partition(" "):
        case ("raise", _, text):
            raise ValueError(text)
        case ("die", _, _):
            os.kill(os.getpid(), signal.SIGKILL)
        case ("hang", _, _):
            time.sleep(600)
        case ("allocate", _, mib):
            return str(np.ones(int(mib) * 2**17).sum())
        case ("start", _, path):
            child = os.fork()
            if not child:
                os.execvp("sleep", ["sleep", "600"])
            Path(path).write_text(str(child))
            time.sleep(600)
    return what
