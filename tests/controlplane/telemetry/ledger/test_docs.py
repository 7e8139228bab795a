"""docs/ledger.md matches the ledger."""

import re
from pathlib import Path

import pytest

from controlplane.telemetry.ledger import close
from controlplane.telemetry.ledger.row import PROMPT_BUCKET_EDGES, bucket_start, prompt_bucket
from inference.contract.stages import STAGES
from tests.support.telemetry.ledger_traces import in_gateway, spent

PAGE = (Path(__file__).parents[4] / "docs" / "ledger.md").read_text()
DEFINITIONS = (
    "gateway",
    "otel-server",
    "vllm-arrival",
    "vllm-scheduled",
    "sglang-arrival",
    "triton-first-response",
    "client",
)


@pytest.mark.parametrize("word", [*STAGES, "unattributed", *DEFINITIONS])
def test_it_defines(word: str) -> None:
    assert f"\n| `{word}` |" in PAGE


def test_it_lists_the_prompt_buckets() -> None:
    for edge in (0, *PROMPT_BUCKET_EDGES):
        assert re.search(rf"\b{re.escape(prompt_bucket(edge))}[,;]", PAGE)
        assert bucket_start(prompt_bucket(edge)) == edge
    assert bucket_start(prompt_bucket(None)) == -1


def test_its_worked_example_is_what_comes_out() -> None:
    (row,) = close(in_gateway())
    example = PAGE[PAGE.index("## A worked example") :]
    written = {stage: int(ns) for stage, ns in re.findall(r"\n\| `(\w+)` \| (\d+) \|", example)}
    assert written == spent(row)
    assert f"prefill {row.prefill_ns}, decode {row.decode_ns}" in example
