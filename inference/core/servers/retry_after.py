"""Reads how long a server wants to be left alone."""

import time
from email.utils import parsedate_to_datetime


def read_retry_after(header: str) -> float:
    """Seconds; 0 where there is no such header, or none that can be read. RFC 9110, 10.2.3: a number of seconds, or a date. Some
    servers send a fraction.
    """
    text = header.strip()
    try:
        wait_s = float(text)
    except ValueError:
        try:
            wait_s = parsedate_to_datetime(text).timestamp() - time.time()
        except ValueError:
            return 0.0
    return wait_s if 0 < wait_s < 86_400 else 0.0
