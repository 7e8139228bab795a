"""Settings are documented where people look for them."""

import pytest

from deploy.local.process import ROOT
from inference.config import Config, load


def test_every_setting_is_in_the_documentation() -> None:
    page = (ROOT / "docs" / "gateway.md").read_text()
    missing = [name for name in Config.model_fields if f"`WEIR_{name.upper()}`" not in page]
    assert not missing


def test_an_empty_path_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SNAPSHOT_PATH", "TLS_CERTIFICATE", "TLS_KEY", "TLS_CLIENT_CA"):
        monkeypatch.setenv(f"WEIR_{name}", "")
    config = load()
    assert (config.tls_certificate, config.tls_key, config.tls_client_ca) == (None, None, None)
    assert config.snapshot_file.name == "snapshot.json"


def test_every_setting_says_why() -> None:
    assert all(field.description for field in Config.model_fields.values())
