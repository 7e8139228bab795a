"""Writes `scrape-targets.json` into the home: the replicas and our own processes, for the telemetry process to scrape (docs/metrics.md)."""

import json

from controlplane.config import Config
from controlplane.fleet.metrics_pages import metrics_pages
from controlplane.fleet.models import Replica
from inference.contract import snapshot_file

FILE = "scrape-targets.json"


def targets(config: Config) -> list[dict[str, object]]:
    """Replicas that expose metrics, and our own processes. Tokens are named, never written."""
    gateway: dict[str, object] = {"job": "gateway", "url": f"{config.gateway_url}/metrics"}
    if config.metrics_token:
        gateway["bearer_token_env"] = "WEIR_METRICS_TOKEN"  # noqa: S105  (a name)
    telemetry: dict[str, object] = {"job": "telemetry", "url": f"{config.receiver_url}/metrics"}
    if config.otlp_token:
        telemetry["bearer_token_env"] = "WEIR_OTLP_TOKEN"  # noqa: S105  (a name)
    return [gateway, telemetry, *_own(config), *_replicas()]


def _own(config: Config) -> list[dict[str, object]]:
    """Web, lane, controller and worker, where they serve metrics. Without WEIR_METRICS_TOKEN web shows none to a scraper."""
    by_token = {"bearer_token_env": "WEIR_METRICS_TOKEN"} if config.metrics_token else {}
    own: list[dict[str, object]] = []
    scheme = "https" if config.metrics_certificate else "http"
    if config.web_url and by_token:
        own.append({"job": "web", "url": f"{config.web_url.rstrip('/')}/metrics", **by_token})
    if config.lane_url:
        own.append({"job": "lane", "url": f"{config.lane_url.rstrip('/')}/metrics", **by_token})
    if config.controller_port:
        url = f"{scheme}://{config.controller_host}:{config.controller_port}/metrics"
        own.append({"job": "controller", "url": url, **by_token})
    if config.worker_metrics:
        url = f"{scheme}://{config.worker_metrics}/metrics"
        own.append({"job": "worker", "url": url, **by_token})
    return own


def _replicas() -> list[dict[str, object]]:
    """One for each page: a server of several pools carries only the labels on which they agree."""
    labels: dict[str, dict[str, str]] = {}
    replicas = list(Replica.objects.select_related("pool__variant", "pool__region").order_by("pool__name", "name"))
    pages = metrics_pages(replicas)
    for replica in replicas:
        if not (url := pages[replica.pk]):
            continue
        own_labels = {
            "replica": replica.name,
            "pool": replica.pool.name,
            "variant": replica.pool.variant.name,
            "region": replica.pool.region.name,
        }
        agreed = labels.setdefault(url, own_labels)
        labels[url] = {name: value for name, value in agreed.items() if own_labels[name] == value}
    return [{"job": "replica", "url": url, "labels": agreed} for url, agreed in labels.items()]


def write(config: Config) -> None:
    """Replace the file in one step, where its content has changed."""
    text = json.dumps(targets(config), indent=1) + "\n"
    snapshot_file.write_changed(config.home / FILE, text.encode())
