"""The API's documents: complete, and from our own server."""

import re
from pathlib import Path

import pytest
from django.test import Client
from ninja import Schema

from tests.support.web.document import api_document

ROOT = Path(__file__).parents[3]
ENDPOINTS = [
    "/api/v1/latency",
    "/api/v1/latency/series",
    "/api/v1/explain",
    "/api/v1/requests",
    "/api/v1/requests.csv",
    "/api/v1/requests.parquet",
    "/api/v1/traces/{trace_id}",
    "/api/v1/targets",
    "/api/v1/series",
    "/api/v1/series/points",
    "/api/v1/series/metrics",
    "/api/v1/series/averages",
    "/api/v1/stack",
    "/api/v1/objectives",
    "/api/v1/objectives/{slug}",
    "/api/v1/objectives/{slug}/status",
    "/api/v1/objectives/{slug}/burndown",
    "/api/v1/objectives/{slug}/revisions",
    "/api/v1/objectives/preview",
    "/api/v1/objectives.yaml",
    "/api/v1/objectives/{slug}.yaml",
    "/api/v1/openslo/lint",
    "/api/v1/openslo/apply",
    "/api/v1/maintenance",
    "/api/v1/maintenance/{number}",
    "/api/v1/deliveries",
    "/api/v1/destinations",
    "/api/v1/incidents",
    "/api/v1/incidents/{number}",
    "/api/v1/incidents/{number}/acknowledge",
    "/api/v1/incidents/{number}/resolve",
    "/api/v1/incidents/{number}/reopen",
    "/api/v1/incidents/{number}/notes",
    "/api/v1/silences",
    "/api/v1/silences/{number}",
    "/api/v1/changes",
    "/api/v1/planning/forecasts",
    "/api/v1/planning/forecasts/{number}",
    "/api/v1/planning/forecasts/{number}/record",
    "/api/v1/planning/plan",
    "/api/v1/planning/plan.csv",
    "/api/v1/planning/warm",
    "/api/v1/planning/what-if",
    "/api/v1/planning/worksheet",
    "/api/v1/planning/worksheet.csv",
    "/api/v1/planning/jobs",
    "/api/v1/planning/jobs/{number}",
    "/api/v1/planning/jobs/{number}/cancel",
    "/api/v1/policies",
    "/api/v1/policies.yaml",
    "/api/v1/policies/{name}",
    "/api/v1/policies/{name}.yaml",
    "/api/v1/policies/{name}/roll-back",
    "/api/v1/policies/{name}/revisions/{number}",
    "/api/v1/policies/{name}/revisions/{number}/preview",
    "/api/v1/policies/{name}/revisions/{number}/{step}",
    "/api/v1/policy-files/check",
    "/api/v1/policy-files/apply",
    "/api/v1/pauses",
    "/api/v1/pauses/{number}",
    "/api/v1/overrides",
    "/api/v1/overrides/{number}",
    "/api/v1/decisions",
    "/api/v1/decisions/{key}",
    "/api/v1/decisions/{key}/replay",
]


def test_the_schema_lists_every_endpoint(caller: Client) -> None:
    assert sorted(caller.get("/api/v1/openapi.json").json()["paths"]) == sorted(ENDPOINTS)


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_every_endpoint_and_parameter_is_in_the_manual(endpoint: str) -> None:
    manual = (ROOT / "docs/api.md").read_text()
    path = endpoint.removeprefix("/api/v1/")
    methods = api_document()["paths"][endpoint]
    method = "get" if "get" in methods else "post"
    assert f"{method.upper()} {path}" in manual
    for parameter in methods[method].get("parameters", ()):
        assert f"`{parameter['name']}`" in manual, parameter["name"]


def test_the_docs_page_loads_only_from_this_server(caller: Client) -> None:
    page = caller.get("/api/v1/docs").content.decode()
    assert "swagger" in page
    assert not re.findall(r"""(?:src|href)=["'](?:https?:)?//""", page)


def test_no_two_schemas_share_a_name() -> None:
    """Else one would be documented as the other."""
    made = [one for one in subclasses(Schema) if one.__module__.startswith("controlplane.")]
    names = [one.__name__ for one in made]
    assert len(made) > 20 and sorted(set(names)) == sorted(names)


def subclasses(kind: type) -> list[type]:
    return [found for one in kind.__subclasses__() for found in (one, *subclasses(one))]


def test_names_of_operations_stay_when_endpoints_move() -> None:
    paths = api_document()["paths"]
    names = {operation["operationId"] for operations in paths.values() for operation in operations.values()}
    assert len(names) == sum(map(len, paths.values()))
    assert {
        "controlplane_api_latency_latency",
        "controlplane_api_incidents_one",
        "controlplane_api_incidents_one_silence",
        "controlplane_api_incidents_new_change",
    } <= names
    assert not any("endpoints" in name for name in names)
