"""What the store says of requests that the cache answered."""

from dataclasses import replace

from controlplane.telemetry.ledger.row import Attempt
from controlplane.telemetry.store import Store
from tests.support.telemetry.samples import HOUR, row


def test_what_a_hit_saved_is_not_known_where_its_inference_had_begun(store: Store) -> None:
    overtaken = Attempt("small-eu", "one", "cancelled", "", retried=False, ns=5, model_ns=0)
    hit = replace(row(1, cache_outcome="semantic", replica=""), prompt_tokens=10, output_tokens=3)
    miss = replace(
        row(2, cache_outcome="miss", attempts=(replace(overtaken, outcome="ok"),)), prompt_tokens=7, output_tokens=3
    )
    begun = replace(hit, request_id=f"{3:016x}", attempts=(overtaken,))
    store.writer.insert_requests([hit, miss, begun], version=1)
    rows = {each.outcome: each for each in store.cached.rows(HOUR)}
    assert [
        (each.answered, each.counted, each.prompt_tokens, each.begun) for each in (rows["semantic"], rows["miss"])
    ] == [(2, 1, 10, 1), (1, 1, 7, 0)]
