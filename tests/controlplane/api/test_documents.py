"""The API's documents: complete, and from our own server."""

import re
from pathlib import Path

from django.test import Client
from ninja import Schema

from tests.support.web.document import api_document

ROOT = Path(__file__).parents[3]
MANUAL = (ROOT / "docs/api.md").read_text()
PREFIX = "/api/v1/"
PATHS = api_document()["paths"]


def test_the_manual_names_every_endpoint_and_no_other(caller: Client) -> None:
    assert caller.get(f"{PREFIX}openapi.json").json()["paths"].keys() == PATHS.keys()
    named = re.findall(r"`(GET|POST|PUT|PATCH|DELETE) ([^` ]+)`", MANUAL)
    assert {PREFIX + path for _, path in named} == set(PATHS)
    assert [call for call in named if call[0].lower() not in PATHS[PREFIX + call[1]]] == []


def test_every_parameter_is_in_the_manual() -> None:
    operations = [operation for operations in PATHS.values() for operation in operations.values()]
    named = {parameter["name"] for operation in operations for parameter in operation.get("parameters", ())}
    assert len(named) > 50 and {name for name in named if f"`{name}`" not in MANUAL} == set()


def test_the_docs_page_loads_only_from_this_server(caller: Client) -> None:
    page = caller.get("/api/v1/docs").content.decode()
    assert "/api/v1/latency/series" in page
    assert not re.findall(r"""(?:src|href)=["'](?:https?:)?//""", page)


def test_no_two_schemas_share_a_name() -> None:
    """Else one would be documented as the other."""
    made = {one for one in subclasses(Schema) if one.__module__.startswith("controlplane.")}  # one may have two bases
    names = [one.__name__ for one in made]
    assert len(made) > 20 and sorted(set(names)) == sorted(names)


def subclasses(kind: type) -> list[type]:
    return [found for one in kind.__subclasses__() for found in (one, *subclasses(one))]


def test_names_of_operations_stay_when_endpoints_move() -> None:
    names = {operation["operationId"] for operations in PATHS.values() for operation in operations.values()}
    assert len(names) == sum(map(len, PATHS.values()))
    assert {
        "controlplane_api_latency_latency",
        "controlplane_api_incidents_one",
        "controlplane_api_incidents_one_silence",
        "controlplane_api_incidents_new_change",
    } <= names
    assert not any("endpoints" in name for name in names)
