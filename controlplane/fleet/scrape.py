"""`scrape-targets.json` in the home: what the telemetry process scrapes of the fleet and of our own. See docs/metrics.md."""

import json
import os
from pathlib import Path

from controlplane.config import Config
from controlplane.fleet.models import Replica

FILE = "scrape-targets.json"


def targets(config: Config) -> list[dict[str, object]]:
    """Replicas that expose metrics, the gateway, and telemetry itself. Tokens are named, never written."""
    gateway: dict[str, object] = {"job": "gateway", "url": f"{config.gateway_url}/metrics"}
    if config.metrics_token:
        gateway["bearer_token_env"] = "WEIR_METRICS_TOKEN"  # noqa: S105  (a name)
    elif (config.home / "gateway-key").exists():
        gateway["bearer_token_file"] = str(config.home / "gateway-key")
    telemetry: dict[str, object] = {"job": "telemetry", "url": f"{config.telemetry_url}/metrics"}
    if config.otlp_token:
        telemetry["bearer_token_env"] = "WEIR_OTLP_TOKEN"  # noqa: S105  (a name)
    replicas: list[dict[str, object]] = [
        {
            "job": "replica",
            "url": f"http://{replica.metrics}/metrics",
            "labels": {
                "replica": replica.name,
                "pool": replica.pool.name,
                "variant": replica.pool.variant.name,
                "region": replica.pool.region.name,
            },
        }
        for replica in Replica.objects.select_related("pool__variant", "pool__region")
        .exclude(metrics="")
        .order_by("pool__name", "name")
    ]
    return [gateway, telemetry, *replicas]


def write(config: Config) -> None:
    """Bring the file up to date, if it is not; whole or not at all."""
    path, text = config.home / FILE, json.dumps(targets(config), indent=1) + "\n"
    if _read(path) == text:
        return
    draft = path.with_name(f".{FILE}.{os.getpid()}")
    draft.write_text(text)
    draft.replace(path)


def _read(path: Path) -> str:
    return path.read_text() if path.is_file() else ""
