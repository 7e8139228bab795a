"""`run/fleet.json`: the local replicas, for `manage.py bootstrap --fleet` to put into the database."""

import json
from collections.abc import Sequence
from pathlib import Path

from deploy.local.triton import Triton

MODELS = {"chat-large": "chat_large", "chat-small": "chat_small"}
"""What clients ask for, and what Triton calls it."""


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
            {"name": one.name, "grpc": one.grpc, "http": one.http, "metrics": one.metrics} for one in replicas
        ],
    }
