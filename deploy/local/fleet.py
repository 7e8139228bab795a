"""Writes `run/fleet.json`: the local replicas, which `manage.py bootstrap --fleet` puts into the database."""

import json
from collections.abc import Sequence
from pathlib import Path

from deploy.local.triton import Triton

MODELS = {"chat-large": "chat_large", "chat-small": "chat_small"}
"""The name that clients send, and Triton's name of the model."""


def write(path: Path, replicas: Sequence[Triton]) -> None:
    models = [{"name": model, "pools": [_pool(model, served, replicas)]} for model, served in MODELS.items()]
    path.write_text(json.dumps({"models": models}, indent=2))


def _pool(model: str, served: str, replicas: Sequence[Triton]) -> dict[str, object]:
    return {
        "name": f"{model}-local",
        "variant": model,
        "region": "local",
        "model_name": served,
        "model_version": "1",
        "replicas": [
            {"name": replica.name, "grpc": replica.grpc, "http": replica.http, "metrics": replica.metrics}
            for replica in replicas
        ],
    }
