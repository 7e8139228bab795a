"""Settings are documented where people look for them."""

from deploy.local.process import ROOT
from inference.config import Config


def test_every_setting_is_in_the_documentation() -> None:
    page = (ROOT / "docs" / "gateway.md").read_text()
    missing = [name for name in Config.model_fields if f"`WEIR_{name.upper()}`" not in page]
    assert not missing


def test_every_setting_says_why() -> None:
    assert all(field.description for field in Config.model_fields.values())
