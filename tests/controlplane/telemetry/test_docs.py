"""docs/telemetry.md names every setting of the process, with its default."""

from pathlib import Path

from controlplane.config import Config
from controlplane.telemetry.config import IngestConfig

PAGE = (Path(__file__).parents[3] / "docs" / "telemetry.md").read_text()


def test_every_setting_is_described() -> None:
    own = [name.upper() for name in IngestConfig.model_fields if name not in Config.model_fields]
    assert own and [name for name in own if f"| `WEIR_{name}` |" not in PAGE] == []
