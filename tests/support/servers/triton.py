"""Starts a real Triton with the stand-ins of `triton_models`."""

import asyncio
import dataclasses
import json
import shutil
import urllib.request
from pathlib import Path

from deploy.local.ports import free_ports
from deploy.local.triton import Triton, installation, triton
from tests.support.wait import eventually_async

MODELS = Path(__file__).with_name("triton_models")
VARIANTS = {
    "bls_accumulating": (
        "tensorrt_llm_bls",
        {"${accumulate_tokens}": "true", "${multimodal_encoders_name}": "multimodal_encoders"},
    ),
    "llmapi_decoupled": ("llmapi", {"decoupled: False": "decoupled: True"}),
    "llmapi_deltas": ("llmapi", {"decoupled: False": "decoupled: True", "text: so_far": "text: deltas"}),
}
"""Models that are another one of the repository with these words in place of its own."""


def triton_of_standins(folder: Path, *models: str) -> Triton:
    """A Triton with these models of the repository, which is copied to `folder`. Beside it lies its backend directory: the vLLM backend
    is one in Python, as the published one is. Configurations are completed by the models, as theirs are.
    """
    repository = folder / "repository"
    shutil.copytree(MODELS / "repository", repository, dirs_exist_ok=True)
    for name, (model, words) in VARIANTS.items():
        shutil.copytree(repository / model, repository / name, dirs_exist_ok=True)
        for path in (repository / name / "config.pbtxt", *(repository / name / "1").glob("model.yaml")):
            text = path.read_text().replace(f'name: "{model}"', f'name: "{name}"', 1)
            for word, other in words.items():
                text = text.replace(word, other)
            path.write_text(text)
    backends = folder / "backends"
    backends.mkdir(exist_ok=True)
    for name, target in (
        ("python", installation().server / "backends" / "python"),
        ("vllm", MODELS / "backends" / "vllm"),
    ):
        if not (backends / name).exists():
            (backends / name).symlink_to(target)
    grpc, http, metrics = free_ports(3)
    server = triton((grpc, http, metrics), name="standins", models=models, repository=repository)
    argv = [
        f"--backend-directory={backends}" if word.startswith("--backend-directory=") else word
        for word in server.command.argv
        if word != "--disable-auto-complete-config"
    ]
    return dataclasses.replace(server, command=dataclasses.replace(server.command, argv=tuple(argv)))


def load(server: Triton, model: str, **parameters: str) -> None:
    """Load `model` again with these parameters over those of its config.pbtxt, such as `fail_after_tokens="3"` (`docs/models.md`)."""
    base = f"http://{server.http}/v2"
    with urllib.request.urlopen(f"{base}/models/{model}/config", timeout=120) as answer:
        config = json.load(answer)
    config["parameters"].update({name: {"string_value": value} for name, value in parameters.items()})
    body = json.dumps({"parameters": {"config": json.dumps(config)}}).encode()
    urllib.request.urlopen(f"{base}/repository/models/{model}/load", body, timeout=120).close()


def requests_of(server: Triton, model: str, what: str) -> float:
    """Requests that the stand-in for `model` has "begun", or seen "cancelled"."""
    with urllib.request.urlopen(f"http://{server.metrics}/metrics", timeout=60) as page:
        for line in page.read().decode().splitlines():
            if line.startswith(f"weir_standin_{what}_total") and f'model="{model}"' in line:
                return float(line.rpartition(" ")[2])
    return 0.0


async def wait_for_more(server: Triton, model: str, what: str, before: float, more: int = 1) -> None:
    """Until the stand-in for `model` has `more` requests than `before` (see `requests_of`)."""
    seen = before

    async def has_more() -> bool:
        nonlocal seen
        seen = await asyncio.to_thread(requests_of, server, model, what)
        return seen >= before + more

    await eventually_async(has_more, lambda: f"{model} has {what} {seen - before:g} more requests, not {more}")
