"""CSV files that people open in a spreadsheet: text in them that clients, servers or people wrote is no formula there.

https://owasp.org/www-community/attacks/CSV_Injection
"""

import re
from typing import Any

FORMULA = r"\A[=+\-@\t\r\n]"
"""How a cell begins that a spreadsheet would work out. For `re` and RE2."""
GUARD = "'"
"""Before it, a spreadsheet shows the cell as text."""


def as_text(cell: Any) -> Any:
    """A cell; numbers stay numbers."""
    return f"{GUARD}{cell}" if isinstance(cell, str) and re.match(FORMULA, cell) else cell
