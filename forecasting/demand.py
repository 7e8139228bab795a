"""What clients want of a model: requests and tokens over time."""

from dataclasses import dataclass

from forecasting.series import Series


@dataclass(frozen=True, slots=True, order=True)
class DemandKey:
    """Whose demand. A dimension that the ledger does not know is empty."""

    model: str
    tier: str = ""
    region: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """The demand of a key: six series over the same steps, each per second.

    `requests`, `input_tokens` and `output_tokens` are what clients wanted, whether it was answered or not. Of these requests,
    `shed` were refused and `from_cache` were answered without a replica. `limited` came beside them and were over a limit of
    their tenant or key: no replica more would have answered them. A step that was not measured is a gap in all six.
    """

    key: DemandKey
    requests: Series
    input_tokens: Series
    output_tokens: Series
    shed: Series
    limited: Series
    from_cache: Series
