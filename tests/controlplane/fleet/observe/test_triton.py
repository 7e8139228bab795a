import json
from pathlib import Path

import aiohttp
import pytest

from controlplane.fleet.observe import probes
from controlplane.fleet.observe.core import triton
from deploy.local.triton import Triton


def stats(*models: tuple[str, int, int], version: str = "1") -> str:
    return json.dumps(
        {
            "model_stats": [
                {
                    "name": name,
                    "version": version,
                    "inference_stats": {
                        "success": {"count": good, "ns": 0},
                        "fail": {"count": bad, "ns": 0},
                        "queue": {"count": good, "ns": good * 2_000_000},
                        "compute_infer": {"count": good, "ns": good * 9_000_000},
                    },
                }
                for name, good, bad in models
            ]
        }
    )


def test_a_server_that_is_not_ready_is_down() -> None:
    assert triton.reading(400, "", "", "chat").state == "down"


def test_a_replica_without_its_model_is_down_and_says_what_to_do() -> None:
    seen = triton.reading(200, stats(("other", 1, 0)), "", "chat")
    assert seen.state == "down"
    assert "model 'chat' is not loaded: load it" in seen.error


def test_only_the_pools_own_model_is_counted() -> None:
    seen = triton.reading(200, stats(("other", 50, 9), ("chat", 7, 1)), "", "chat")
    assert seen.counters == {"requests": 8, "errors": 1, "queue_ns": 14_000_000, "compute_ns": 63_000_000}


def test_requests_that_failed_are_errors_and_those_that_clients_gave_up_are_none() -> None:
    given_up = (
        '# TYPE nv_inference_request_failure counter\nnv_inference_request_failure{model="chat",reason="CANCELED"} 3\n'
    )
    assert triton.reading(200, stats(("chat", 7, 3)), given_up, "chat").counters["errors"] == 0
    failed = 'nv_inference_request_failure{model="chat",reason="BACKEND"} 2\n'
    assert triton.reading(200, stats(("chat", 7, 5)), given_up + failed, "chat").counters["errors"] == 2


def test_what_is_no_statistics_is_said_to_be_none() -> None:
    with pytest.raises(ValueError, match="not understood"):
        triton.reading(200, "{}", "", "chat")


def test_a_recorded_page_of_metrics_is_read(shared_dir: Path) -> None:
    page = (shared_dir / "fixtures" / "triton" / "metrics.txt").read_text()
    seen = triton.reading(200, stats(("textgen", 3999, 0)), page, "textgen")
    assert seen.figures["pending"] == 0
    assert seen.figures["host_cpu_ratio"] == pytest.approx(0.995, abs=1e-3)
    assert seen.counters["errors"] == 0


def test_how_a_server_batches() -> None:
    config = {"max_batch_size": 8, "dynamic_batching": {"max_queue_delay_microseconds": 1500}}
    assert triton.batching(json.dumps(config)) == {"batch_max": 8, "batch_window_ms": 1.5}
    assert triton.batching('{"max_batch_size": 8}') == {"batch_max": 8, "batch_window_ms": 0}
    assert triton.batching('{"max_batch_size": 0}') == {"batch_max": 1, "batch_window_ms": 0}
    with pytest.raises(ValueError, match="not understood"):
        triton.batching("[]")


async def test_a_real_triton_is_up_with_its_figures(session_triton: Triton) -> None:
    async with aiohttp.ClientSession() as session:
        seen = await probes.triton_server(
            session_triton.http, f"http://{session_triton.metrics}/metrics", "chat_large"
        )(session)
    assert (seen.state, seen.error) == ("up", "")
    assert seen.counters.keys() == {"requests", "errors", "queue_ns", "compute_ns"}
    assert {"pending", "host_cpu_ratio", "batch_max", "batch_window_ms"} <= seen.figures.keys()
    assert seen.figures["batch_max"] >= 1


async def test_a_real_triton_without_the_model_is_down(session_triton: Triton) -> None:
    async with aiohttp.ClientSession() as session:
        seen = await probes.triton_server(
            session_triton.http, f"http://{session_triton.metrics}/metrics", "no_such_model"
        )(session)
    assert seen.state == "down"
