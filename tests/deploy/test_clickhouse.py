"""The examples for ClickHouse at scale: every file parses, and every name in them is one that exists."""

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import yaml

from controlplane.telemetry.config import IngestConfig
from controlplane.telemetry.store.dsn import parse_dsn
from deploy.local.process import ROOT

FOLDER = ROOT / "deploy" / "clickhouse"
EXPORTERS = {"loadbalancing": {"routing_key", "protocol", "resolver"}}
"""What the collector's exporter knows, as far as the example uses it (its contrib distribution, README)."""


def settings() -> dict[str, str]:
    lines = (FOLDER / "telemetry.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def test_every_setting_exists_and_its_value_is_taken(monkeypatch: Any, tmp_path: Path) -> None:
    for name, value in settings().items():
        assert name.removeprefix("WEIR_").lower() in IngestConfig.model_fields, name
        monkeypatch.setenv(name, value)
    config = IngestConfig(_env_file=None)  # type: ignore[call-arg]
    dsn = parse_dsn(config.store_dsn)
    assert dsn.cluster == "weir"


def test_the_cluster_of_the_address_is_the_one_that_the_servers_know() -> None:
    servers = ElementTree.parse(FOLDER / "weir.xml").getroot()
    clusters = {one.tag for one in servers.find("remote_servers") or ()}
    assert parse_dsn(settings()["WEIR_STORE_DSN"]).cluster in clusters
    macros = {one.tag for one in servers.find("macros") or ()}
    path = (servers.findtext("default_replica_path") or "") + (servers.findtext("default_replica_name") or "")
    assert set(re.findall(r"{(\w+)}", path)) - {"uuid"} == macros == {"shard", "replica"}


def test_the_collectors_pipelines_name_what_it_has() -> None:
    collector = yaml.safe_load((FOLDER / "collector.yaml").read_text())
    for pipeline in collector["service"]["pipelines"].values():
        for kind in ("receivers", "processors", "exporters"):
            assert set(pipeline[kind]) <= collector[kind].keys()
    assert {name: set(found) - EXPORTERS[name] for name, found in collector["exporters"].items()} == {
        "loadbalancing": set()
    }
    assert collector["exporters"]["loadbalancing"]["routing_key"] == "traceID"
    assert "WEIR_OTLP_TOKEN" in str(collector) and "WEIR_OTLP_TOKEN" in settings()


def test_the_readme_names_every_file() -> None:
    readme = (FOLDER / "README.md").read_text()
    assert {f"`{path.name}`" for path in FOLDER.iterdir() if path.name != "README.md"} == set(
        re.findall(r"^\| (`[^`]+`)", readme, re.M)
    )
