"""The sink with a store that misbehaves: nothing is skipped, and a bad item does not stop the others."""

from controlplane.telemetry.core.spans import Span
from controlplane.telemetry.store import StoreUnavailableError
from tests.support.telemetry.pipeline.memory_store import MemoryStore, Outcome


def test_batches_are_written_in_order_and_the_checkpoint_follows() -> None:
    store = MemoryStore()
    outcome = Outcome(store, ["a", "b"], ["c"], [], ["d"])
    assert (store.names, outcome.checkpoints, outcome.away) == (["a", "b", "c", "d"], [0, 1, 2, 3], [""])


def test_a_store_that_is_away_is_asked_again_until_it_answers() -> None:
    store = MemoryStore(StoreUnavailableError("gone", 0.01), StoreUnavailableError("gone", 0.01))
    outcome = Outcome(store, ["a"], ["b"])
    assert (store.names, outcome.checkpoints, outcome.away) == (["a", "b"], [0, 1], ["", "gone", ""])


def test_what_is_refused_for_itself_is_set_aside_and_the_rest_written() -> None:
    store = MemoryStore()
    outcome = Outcome(store, ["a", "poison", "b", "c"], ["d"])
    assert store.names == ["a", "b", "c", "d"]
    assert [span.name for span in outcome.refused if isinstance(span, Span)] == ["poison"]
