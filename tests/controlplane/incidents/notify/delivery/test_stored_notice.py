"""A notice as the outbox keeps it."""

import json

from controlplane.incidents.notify.core.notice import Link
from controlplane.incidents.notify.delivery.core.stored_notice import change_of, notice_of, to_json
from tests.support.incidents.notices import change, notice


def test_what_is_kept_comes_back_as_it_was() -> None:
    full = notice(
        "trigger", 3, details={"a": [1, None, {"b": "c"}]}, links=(Link("https://weir/i", "incident"),), team="serving"
    )
    assert notice_of(json.loads(json.dumps(to_json(full)))) == full
    assert change_of(json.loads(json.dumps(to_json(change(details={"x": 1}))))) == change(details={"x": 1})
