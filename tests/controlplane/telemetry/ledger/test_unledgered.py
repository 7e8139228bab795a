"""Whatever a client sends: a request that reaches a model has a row, and one alone."""

from tests.support.gateway.header_sets import header_sets
from tests.support.gateway.ledgered import unledgered
from tests.support.soak import sized


def test_every_request_has_a_row_whatever_its_headers_say() -> None:
    count = sized(1_000, soak=5_000)
    assert unledgered(header_sets(21, count)) == (0, count)


def test_a_client_that_names_one_trace_for_ever_leaves_no_request_out() -> None:
    """A trace's rows are made of its earliest spans, so one of 3,000 requests would have lost most of them."""
    constant = [("traceparent", f"00-{b'weir-bch'.hex()}{'1' * 16}-{'2' * 16}-01")]
    assert unledgered([constant] * 3_000) == (0, 3_000)
