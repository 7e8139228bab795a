"""Lists of targets: read from files, refused with the remedy."""

from pathlib import Path

import pytest

from controlplane.telemetry.ingest.scrape.scraper import labelled, offset_s
from controlplane.telemetry.ingest.scrape.targets import FILE, Target, TargetsError, named, of_fleet, parse, unique


def test_the_setting_is_a_list_or_names_a_file(tmp_path: Path) -> None:
    text = '[{"job": "vllm", "url": "http://gpu-1:8000/metrics", "labels": {"pool": "a"}}]'
    (tmp_path / "targets.json").write_text(text)
    [one] = named(text)
    assert named(str(tmp_path / "targets.json")) == [one] and named("") == []
    assert one.identity == {"job": "vllm", "instance": "gpu-1:8000", "pool": "a"}


def test_the_fleet_s_targets_are_in_the_home(tmp_path: Path) -> None:
    assert of_fleet(tmp_path) == []
    (tmp_path / FILE).write_text('[{"job": "triton", "url": "http://t:8002/metrics"}]')
    [one] = of_fleet(tmp_path)
    assert unique([one, Target("triton", "http://t:8002/metrics", interval_s=1)]) == [one]


@pytest.mark.parametrize(
    "text, says",
    [
        ("[{]", "JSON list"),
        ('[{"job": "x", "url": "http://[::1"}]', "cannot be used"),
        ('[{"job": "x"}]', "url"),
        ('[{"job": "x", "url": "file:///etc/passwd"}]', "url 'file:///etc/passwd'"),
        ('[{"job": "", "url": "http://a/metrics"}]', "job ''"),
        ('[{"job": "x", "url": "http://a/", "interval_s": 0}]', "interval_s 0"),
        ('[{"job": "x", "url": "http://a/", "timeout_s": 1e9}]', "timeout_s"),
        ('[{"job": "x", "url": "http://a/", "intervall": 5}]', "intervall"),
    ],
)
def test_a_list_that_cannot_be_used_is_refused_with_the_field_and_the_remedy(text: str, says: str) -> None:
    with pytest.raises(TargetsError) as refused:
        parse(text, "WEIR_SCRAPE_TARGETS")
    assert says in str(refused.value) and "WEIR_SCRAPE_TARGETS" in str(refused.value)


def test_targets_are_spread_over_the_interval_and_keep_their_place() -> None:
    first = [offset_s(f"job\nhttp://host-{n}/", 15.0, 1000.0) for n in range(300)]
    assert all(0 <= one < 15 for one in first) and max(first) - min(first) > 13
    assert offset_s("a", 15.0, 1000.0) == pytest.approx(offset_s("a", 15.0, 1015.0))


def test_the_target_s_labels_count_and_the_page_s_are_kept_beside() -> None:
    found = labelled({"instance": "mine", "model": "m"}, {"job": "j", "instance": "h:1"})
    assert found == {"exported_instance": "mine", "model": "m", "job": "j", "instance": "h:1"}
