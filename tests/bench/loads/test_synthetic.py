"""Made-up telemetry has the columns of the store."""

from controlplane.telemetry.store.write.arrow_columns import REQUEST_SCHEMA, SPAN_SCHEMA
from tests.bench.loads.synthetic import SPANS_PER_REQUEST, synthetic


def test_a_batch_is_what_the_store_takes() -> None:
    [batch] = synthetic(100, from_ns=10**18, to_ns=10**18 + 10**12)
    assert (batch.spans.schema, batch.requests.schema) == (SPAN_SCHEMA, REQUEST_SCHEMA)
    assert batch.spans.num_rows == 100 * SPANS_PER_REQUEST
