"""How busy a model server says it is."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.contract.server_metrics import (
    LOAD_METRICS,
    ServerLoad,
    is_queue,
    names_model,
    read_kv_tokens,
    read_load,
    read_load_or_gateway,
)

PAGES = {
    "vllm": """# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 7.0
vllm:num_requests_running{engine="1",model_name="tiny"} 5.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="tiny"} 2.0
vllm:num_requests_waiting{engine="1",model_name="tiny"} 1.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="capacity"} 2.0
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.5
vllm:kv_cache_usage_perc{engine="1",model_name="tiny"} 0.25
""",
    "sglang": """sglang:num_running_reqs{model_name="a b}c"} 12
sglang:num_queue_reqs{model_name="a b}c"} 3
sglang:token_usage{model_name="a b}c"} 0.375
""",
    "trtllm": """trtllm_num_requests_running{engine_type="pytorch"} 1.2e1
trtllm_num_requests_waiting{engine_type="pytorch"} 3 1764000000000
trtllm_kv_cache_utilization{engine_type="pytorch"} 0.375
""",
    "llamacpp": "llamacpp:requests_processing 12\nllamacpp:requests_deferred 3\n",
    "tgi": "tgi_batch_current_size 12\ntgi_queue_size 3\n",
    "triton_trtllm": """nv_inference_request_success{model="ensemble",version="1"} 99
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="waiting",version="1"} 3
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="context",version="1"} 1
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="scheduled",version="1"} 12
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="max",version="1"} 512
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction",model="tensorrt_llm",version="1"} 0.375
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="used",model="tensorrt_llm",version="1"} 40
""",
}


@pytest.mark.parametrize("kind", LOAD_METRICS)
def test_every_kind_of_server_is_read_by_its_own_names(kind: str) -> None:
    kv_use = 0.375 if LOAD_METRICS[kind].kv_use else None
    assert read_load(PAGES[kind].encode(), 4.5) == ServerLoad(4.5, 3.0, 12.0, kv_use)
    assert read_load(b"vllm:num_requests_waiting 1\nvllm:kv_cache_usage_perc 1.5\n", 0.0).kv_use == 1.0


@pytest.mark.parametrize(
    ("engines", "tokens"),
    [
        (['kv_cache_size_tokens="1048576",num_gpu_blocks="8192",block_size="128"'], 1_048_576),
        (['block_size="16",num_gpu_blocks="27000"', 'block_size="16",num_gpu_blocks="27000"'], 864_000),
        (['block_size="16",num_gpu_blocks="None",kv_cache_size_tokens="None"'], None),
        (['block_size="16"'], None),
        ([f'kv_cache_size_tokens="{"9" * 5000}"'], None),
        ([], None),
    ],
)
def test_a_vllm_says_for_how_many_tokens_its_cache_has_room(engines: list[str], tokens: int | None) -> None:
    lines = [f'vllm:cache_config_info{{{labels},engine="{number}"}} 1.0\n' for number, labels in enumerate(engines)]
    assert read_kv_tokens((PAGES["vllm"] + "".join(lines)).encode()) == tokens


def test_the_adapters_of_a_vllm_are_those_of_its_latest_series() -> None:
    def series(running: str, at: str) -> str:
        return (
            f'vllm:lora_requests_info{{max_lora="4",running_lora_adapters="{running}",waiting_lora_adapters=""}} {at}\n'
        )

    page = PAGES["vllm"] + series("law", "1.7640e+09") + series("sql,law", "1.7642e+09") + series("", "1.7641e+09")
    load = read_load(page.encode(), 0.0)
    assert (load.adapters, load.most_adapters) == (frozenset({"sql", "law"}), 4)
    assert read_load((page + series("", "1.7643e+09")).encode(), 0.0).adapters == frozenset()
    assert read_load((PAGES["vllm"] + series("law", "x")).encode(), 0.0).adapters is None
    many = page.replace('max_lora="4"', f'max_lora="{"9" * 5000}"')
    assert read_load(many.encode(), 0.0).most_adapters == 0


def test_the_parts_of_a_total_by_priority_do_not_count_beside_it() -> None:
    def series(name: str, total: int, *parts: int) -> str:
        by_priority = {"": total, **{str(priority): part for priority, part in enumerate(parts)}}
        return "".join(
            f'sglang:{name}{{dp_rank="0",priority="{priority}",tp_rank="0"}} {number}.0\n'
            for priority, number in by_priority.items()
        )

    page = series("num_running_reqs", 12, 7, 5) + series("num_queue_reqs", 3, 0, 3)
    assert read_load(page.encode(), 0.0) == ServerLoad(0.0, 3.0, 12.0)
    assert is_queue("sglang:num_queue_reqs", {"tp_rank": "0"})
    assert not is_queue("sglang:num_queue_reqs", {"tp_rank": "0", "priority": "1"})


@pytest.mark.parametrize("value", ["NaN", "+Inf", "1e308", "-1", "x", ""])
def test_what_is_missing_or_no_number_is_unknown_and_not_zero(value: str) -> None:
    page = f"vllm:num_requests_waiting 2\nvllm:num_requests_waiting {value}\nvllm:num_requests_running 4\nvllm:num_requests_running 1"
    assert read_load(page.encode(), 0.0) == ServerLoad(0.0, None, 4.0)


@given(st.binary(max_size=200))
def test_any_other_page_is_unknown(page: bytes) -> None:
    assert not read_load(page, 0.0).known


@given(
    st.floats(0, 1e6), st.floats(0, 1e6), st.text(st.characters(codec="utf-8", exclude_characters='"\\\n'), max_size=20)
)
def test_labels_do_not_matter(waiting: float, running: float, label: str) -> None:
    page = (
        f'vllm:num_requests_waiting{{m="{label}"}} {waiting!r}\nvllm:num_requests_running{{m="{label}"}} {running!r}\n'
    )
    signals = read_load(page.encode(), 0.0)
    assert signals.waiting is not None
    assert signals.running is not None
    assert math.isclose(signals.waiting, waiting)
    assert math.isclose(signals.running, running)


def test_gauges_of_a_queue_are_known_by_their_name_and_label() -> None:
    waiting, running = ({"request_type": kind, "model": "m"} for kind in ("waiting", "scheduled"))
    assert is_queue("vllm:num_requests_waiting", running) and is_queue("nv_inference_pending_request_count", {})
    assert is_queue("nv_trt_llm_request_metrics", waiting)
    assert not is_queue("nv_trt_llm_request_metrics", running)
    assert not is_queue("vllm:num_requests_running", {})
    assert names_model("vllm:num_requests_waiting") and not names_model("nv_trt_llm_request_metrics")


def test_a_gateways_own_page_says_how_many_requests_it_has() -> None:
    page = b"# TYPE weir_gateway_requests_in_flight gauge\nweir_gateway_requests_in_flight 3.0\n"
    assert (read_load_or_gateway(page, 1.0).running, read_load(page, 1.0).known) == (3.0, False)
    assert read_load_or_gateway(b"vllm:num_requests_running 2\n", 1.0).running == 2.0
    assert not read_load_or_gateway(b"other 1\n", 1.0).known
