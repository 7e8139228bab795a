from pathlib import Path

import pytest

from controlplane.config import Config, ConfigError
from controlplane.lane.config import LaneConfig
from controlplane.lane.objects.location import objects_at
from deploy.local.process import ROOT
from tests.support.lane.s3 import s3


def test_every_setting_of_the_lane_is_documented_with_its_default() -> None:
    document = (ROOT / "docs" / "batches.md").read_text()
    without = {"lane_certificate", "lane_key", "lane_token", "lane_objects", "lane_callback_allow"}
    without |= {"lane_kafka", "lane_kafka_key", "lane_kafka_user", "lane_kafka_password"}
    for name in LaneConfig.model_fields.keys() - Config.model_fields.keys() - without:
        assert f"| `WEIR_{name.upper()}` | `{LaneConfig.model_fields[name].default}` |" in document


@pytest.mark.parametrize("wrong", ["http://10.0.0.1", "10.0.0.0/99"])
def test_what_is_no_network_is_refused(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    monkeypatch.setenv("WEIR_LANE_CALLBACK_ALLOW", f"hooks.internal, {wrong}")
    with pytest.raises(ConfigError, match="neither a network"):
        LaneConfig.load()


def test_a_bucket_that_is_not_there_is_refused() -> None:
    with s3(), pytest.raises(OSError, match="404 Not Found"):
        objects_at("s3://absent/lane")


def test_a_token_that_can_be_guessed_is_refused_without_being_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WEIR_LANE_TOKEN", "hunter2")
    with pytest.raises(ConfigError, match="32 characters or more") as refused:
        LaneConfig.load()
    assert "hunter2" not in str(refused.value)
