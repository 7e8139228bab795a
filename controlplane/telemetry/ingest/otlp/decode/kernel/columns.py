"""The columns of the arrays that the kernel writes.

A span is a row of numbers in `spans`, and 32 bytes in `ids`: trace, span and parent id. Pairs are attributes: where their bytes, key and
value lie in the body.
"""

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.int64]

UNUSUAL = -1

# Columns of `groups`: which resource and scope a span belongs to.
RESOURCE_AT, RESOURCE_END, SCOPE_AT, SCOPE_END = range(4)
GROUP_COLUMNS = 4

# Rows of `places`: where a span lies.
PLACE_AT, PLACE_END, PLACE_GROUP = range(3)
PLACE_ROWS = 3

# Rows of `spans`.
(
    START, END, KIND, STATUS, NAME_AT, NAME_END, PAIR_FIRST, PAIR_LAST, BLOCK_AT, BLOCK_END, EVENT_FIRST, EVENT_LAST,
    MESSAGE_AT, MESSAGE_END, LINKS_AT, LINKS_END, SIZE, GROUP, TRACE,
) = range(19)  # fmt: skip
SPAN_ROWS = 19

# Columns of `pairs`. VALUE is where text begins, or the integer or boolean itself, or where the 8 bytes of a double lie.
PAIR_AT, PAIR_END, KEY_AT, KEY_END, TYPE, VALUE, VALUE_END = range(7)
PAIR_COLUMNS = 7
TEXT, INTEGER, BOOLEAN, DOUBLE, ODD = range(5)

# Columns of `events`.
EVENT_NS, EVENT_NAME_AT, EVENT_NAME_END, EVENT_PAIR_FIRST, EVENT_PAIR_LAST = range(5)
EVENT_COLUMNS = 5

# What `read_spans` counts: rows written, and faults by kind in the order of `span_faults.REASONS`.
SPANS, PAIRS, EVENTS, EVENT_PAIRS = range(4)
FAULTS, FAULT_KINDS = 4, 8
COUNTS = FAULTS + FAULT_KINDS

LATEST_NS = 2**63 - 1
