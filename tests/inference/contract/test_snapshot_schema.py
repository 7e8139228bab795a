"""Documents of other versions of the control plane."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from inference.contract import snapshot
from inference.contract.gateway_signals import GatewaySignals
from inference.contract.rules import NO_OVERLAY, Degradation, Overlay, Route, RouteRule
from inference.contract.snapshot import Endpoint, Snapshot, SnapshotError, check
from tests.support.gateway.process import LARGE, SMALL, a_snapshot

GIVEN = msgspec.structs.replace(
    a_snapshot("127.0.0.1:8001", "127.0.0.1:8002"),
    endpoints_version=41,
    rules=(RouteRule("p/r", SMALL, routes=(Route(LARGE),), fallbacks=(SMALL,)),),
    overlay=Overlay(
        7, "d1", 1_800_000_000_000, {SMALL: (Route(LARGE, 5),)}, {LARGE: (SMALL,)},
        (Degradation(SMALL, "standard", 1, "short", max_output_tokens=8),), {LARGE: {LARGE: 100}},
    ),
)  # fmt: skip


def written(given: Snapshot = GIVEN) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(snapshot.encode(given))
    return document


def read(document: dict[str, Any]) -> snapshot.Checked:
    return check(json.dumps(document).encode())


def fields_of(schema: Any) -> str:
    """A line for each struct, with what each of its fields takes, and what it means where a document leaves it out."""
    lines = (
        f"{name}: " + "; ".join(f"{field} {json.dumps(says)}" for field, says in struct["properties"].items())
        for name, struct in sorted(schema["$defs"].items())
    )
    return re.sub('"type": |"\\$ref": "#/.defs/|["{}]', "", "\n".join(lines)) + "\n"


def test_a_field_takes_and_means_what_it_did_for_gateways_and_control_planes_of_before() -> None:
    """`fields.txt` changes with a field that is new, and otherwise with `schema` alone."""
    written = "".join(fields_of(msgspec.json.schema(struct)) for struct in (Snapshot, GatewaySignals))
    assert written == (Path(__file__).parent / "fields.txt").read_text()


def test_endpoints_lie_apart_from_their_pools() -> None:
    document = written()
    assert all("endpoints" not in pool for pool in document["pools"])
    assert document["endpoints"]["version"] == 41
    assert read(document) == (GIVEN, (), ())
    document["endpoints"] = {
        "version": 42,
        "pools": {SMALL: [{"replica": "new", "grpc": "127.0.0.1:9", "draining": True}]},
    }
    after = read(document).snapshot
    assert [pool.endpoints for pool in after.pools] == [(Endpoint("new", "127.0.0.1:9", draining=True),), ()]


def test_fields_of_a_newer_document_are_left_out_and_named() -> None:
    newer = written()
    newer["schema"] = 3
    newer["colour"] = {"of": "the sky"}
    newer["models"][0]["cache"]["edge"] = {"seconds": 2}
    newer["pools"][1]["tls"]["pins"] = ["a"]
    newer["tenants"][0]["keys"] = [{"sha256": "00", "scopes": ["read"]}]
    newer["timeouts"]["thinking_ms"] = 5
    newer["rules"][0]["routes"][0]["mirror"] = True
    newer["endpoints"]["pools"][SMALL][0]["zone"] = "eu-1a"
    newer["overlay"]["degradation"][0]["summary"] = True
    checked = read(newer)
    assert checked.faults == ()
    assert sorted(checked.unknown) == [
        "colour", "endpoint.zone", "model.cache.edge", "overlay.degradation.0.summary", "pool.tls.pins",
        "rule.routes.0.mirror", "tenant.keys.0.scopes", "timeouts.thinking_ms",
    ]  # fmt: skip
    assert checked.snapshot.overlay == GIVEN.overlay
    assert checked.snapshot.rules == GIVEN.rules


def test_a_document_for_newer_gateways_alone_is_refused() -> None:
    with pytest.raises(
        SnapshotError, match=r"for gateways of schema 4 and later, and this one has 3: update the gateway"
    ):
        read(written() | {"min_schema": 4})


def test_a_part_of_the_overlay_that_cannot_be_obeyed_takes_no_other_along() -> None:
    document = written()
    document["overlay"]["degradation"] += [
        {"model": "gone", "tier": "", "step": 1, "name": "a"},
        {"model": SMALL, "tier": "", "step": 1, "name": "b", "pool": "gone"},
    ]
    document["overlay"]["routes"][LARGE] = [{"pool": "gone"}]
    document["rules"] += [{"name": "q", "model": "gone"}, {"name": "p/r", "model": SMALL}]
    checked = read(document)
    assert [str(fault) for fault in checked.faults] == [
        "rule 'q': model 'gone' is not one that is served: choose another",
        "rule 'p/r': there are two of this name: rename or remove one",
        f"overlay '{LARGE}': a route leads to pool 'gone', which `pools` does not have",
        "overlay 'a': model 'gone' is not one that is served",
        "overlay 'b': pool 'gone' is one that `pools` does not have",
    ]
    assert checked.snapshot == GIVEN


def test_an_overlay_that_cannot_be_read_leaves_what_owners_entered() -> None:
    checked = read(written() | {"overlay": {"expires_ms": "soon"}})
    assert [fault.kind for fault in checked.faults] == ["overlay"]
    assert checked.snapshot == msgspec.structs.replace(GIVEN, overlay=NO_OVERLAY)
