"""Stage timeouts by model and tier."""

import json

import msgspec

from inference.contract import snapshot
from inference.contract.snapshot import StageTimeouts, TimeoutRule, check
from inference.contract.stage_timeouts import timeouts_of
from tests.support.gateway.process import SMALL, a_snapshot

ALL = StageTimeouts()


def test_what_is_said_of_both_is_stronger_than_of_the_tier_and_that_than_of_the_model() -> None:
    rules = [
        TimeoutRule("both", "chat", "premium", queue_ms=15),
        TimeoutRule("tier", "", "premium", queue_ms=60, tokenizer_ms=5),
        TimeoutRule("model", "chat", queue_ms=500, tokenizer_ms=300, model_ms=800),
    ]
    held = timeouts_of(ALL, rules, ("chat", "other"), ("premium", "batch"))
    replace = msgspec.structs.replace
    assert held == {
        ("chat", "premium"): replace(ALL, queue_ms=15, tokenizer_ms=5, model_ms=800),
        ("chat", "batch"): replace(ALL, queue_ms=500, tokenizer_ms=300, model_ms=800),
        ("other", "premium"): replace(ALL, queue_ms=60, tokenizer_ms=5),
    }


def test_a_rule_for_what_is_not_served_spoils_no_other() -> None:
    rules = (TimeoutRule("a", SMALL, queue_ms=7), TimeoutRule("b", "gone", queue_ms=7), TimeoutRule("c", "", "gone"))
    document = snapshot.encode(msgspec.structs.replace(a_snapshot("127.0.0.1:1"), timeout_rules=rules))
    checked = check(document)
    assert checked.snapshot.timeout_rules == rules[:1]
    assert [(fault.kind, fault.name) for fault in checked.faults] == [("timeouts", "b"), ("timeouts", "c")]
    del (older := json.loads(document))["timeout_rules"]
    assert check(json.dumps(older).encode()).snapshot.timeout_rules == ()
