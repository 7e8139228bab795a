"""Kubernetes' quantities, such as `500m`, `1.5` or `32Gi` (kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity)."""

import re
from decimal import Decimal

_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(m|k|M|G|T|Ki|Mi|Gi|Ti)?")
_FACTORS = {
    "": Decimal(1),
    "m": Decimal("0.001"),
    **{unit: Decimal(1000) ** power for power, unit in enumerate(("k", "M", "G", "T"), 1)},
    **{unit: Decimal(1024) ** power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti"), 1)},
}


def parse(text: str) -> Decimal:
    """Raises ValueError with the remedy."""
    match = _QUANTITY.fullmatch(text)
    if match is None or Decimal(match[1]) == 0:
        raise ValueError(f"“{text}” is not a quantity above zero: write one such as 500m, 4, 512Mi or 32Gi.")
    return Decimal(match[1]) * _FACTORS[match[2] or ""]
