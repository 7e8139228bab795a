"""Each setting is checked, documented, and refused with a sentence when it is wrong."""

import re
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import run_checks
from pytest_django import Settings

from controlplane.config import Config, ConfigError, checks, load
from controlplane.telemetry.config import IngestConfig
from controlplane.telemetry.ingest.limits import MAX_RETENTION_DAYS

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "settings.md").read_text()

WRONG: list[tuple[str, dict[str, Any]]] = [
    ("weir.E001", {"home": Path("/dev/null/nowhere")}),
    (
        "weir.W002",
        {"debug": True, "allowed_hosts": ["weir.example.com"], "https": True, "trusted_proxies": ["10.0.0.1"]},
    ),
    ("weir.E003", {"allowed_hosts": ["*"], "https": True, "trusted_proxies": ["10.0.0.1"]}),
    ("weir.E003", {"allowed_hosts": []}),
    ("weir.W004", {"allowed_hosts": ["weir.example.com"]}),
    ("weir.E005", {"secret_key": "short"}),
    ("weir.E061", {"encryption_keys": ["short"]}),
    ("weir.E006", {"session_hours": 0}),
    ("weir.E007", {"database_timeout_s": 0.0}),
    ("weir.E008", {"redis_url": "http://127.0.0.1"}),
    ("weir.E009", {"store_dsn": "clickhouse://"}),
    ("weir.E009", {"store_dsn": "postgresql://host/x"}),
    ("weir.E010", {"otlp_http_port": 4317}),
    ("weir.E010", {"otlp_grpc_port": 70_000}),
    ("weir.W011", {"otlp_host": "0.0.0.0"}),
    ("weir.E012", {"otlp_endpoint": "localhost:4318"}),
    ("weir.E013", {"snapshot_path": Path("/dev/null/nowhere/snapshot.json")}),
    ("weir.E014", {"retention_days": 0}),
    ("weir.E014", {"retention_days": MAX_RETENTION_DAYS + 1}),
    ("weir.E015", {"gateway_url": "http://localhost:8080/v1"}),
    ("weir.W016", {"metrics_token": "guessable"}),
    ("weir.W022", {"gateway_url": "http://gateway:8080"}),
    ("weir.E023", {"trusted_proxies": ["proxy.example.com"]}),
    ("weir.W024", {"https": True}),
    ("weir.E051", {"web_url": "http://weir:8000/api"}),
    ("weir.E052", {"worker_metrics": "9464"}),
    ("weir.E017", {"observe_timeout_s": 6.0}),
    ("weir.E018", {"stale_after_s": 5.0}),
    ("weir.E041", {"evaluate_every_s": 60.0}),
    ("weir.E042", {"controller_port": 70_000}),
    ("weir.W043", {"controller_host": "0.0.0.0"}),
    ("weir.E031", {"public_url": "weir.example.com"}),
    ("weir.E019", {"outbound_allow": ["http://10.0.0.1"]}),
    ("weir.E020", {"evaluation_stopped_after_s": 1.0}),
    ("weir.E071", {"component_page_after_s": 1.0}),
    ("weir.E072", {"component_ticket_after_s": 4000.0}),
    ("weir.E073", {"component_start_s": 10.0}),
    ("weir.E074", {"component_up_for_s": 5.0}),
    ("weir.E075", {"objectives_unknown_after_s": 5.0}),
    ("weir.E021", {"heartbeat_url": "ftp://elsewhere"}),
]


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(_env_file=None, home=tmp_path)


def ids(config: Config) -> list[str | None]:
    return [message.id for message in checks.broken(config)]


def test_the_defaults_pass_every_check(config: Config) -> None:
    assert ids(config) == []


@pytest.mark.parametrize(("expected", "change"), WRONG)
def test_each_wrong_value_is_named_with_a_remedy(config: Config, expected: str, change: dict[str, Any]) -> None:
    (message,) = checks.broken(config.model_copy(update=change))
    assert message.id == expected
    assert message.hint
    assert any(f"WEIR_{name.upper()}" in message.msg for name in change)


def test_every_rule_has_a_case_above() -> None:
    assert {rule.id for rule in checks.RULES} == {case[0] for case in WRONG}
    assert len({rule.id for rule in checks.RULES}) == len(checks.RULES)


def test_every_setting_has_a_rule_or_is_refused_when_it_is_read() -> None:
    covered = {name for rule in checks.RULES for name in rule.settings} | checks.REFUSED_WHEN_READ
    assert covered == Config.model_fields.keys()


def test_no_message_repeats_a_secret(config: Config) -> None:
    secret = "hunter2"
    wrong = {
        "secret_key": secret,
        "metrics_token": secret,
        "redis_url": f"amqp://:{secret}@host",
        "store_dsn": f"x://u:{secret}@h",
    }
    messages = checks.broken(config.model_copy(update=wrong))
    assert len(messages) == 4
    assert secret not in "".join(message.msg for message in messages)


def test_django_runs_the_checks(settings: Settings) -> None:
    settings.CONFIG = settings.CONFIG.model_copy(update={"retention_days": 0})
    assert "weir.E014" in [message.id for message in run_checks()]


def test_every_setting_is_documented_with_its_default() -> None:
    for name, field in Config.model_fields.items():
        line = re.search(rf"^\| `WEIR_{name.upper()}` \|.*$", DOCUMENT, re.M)
        assert line, f"docs/settings.md does not have WEIR_{name.upper()}"
        default = field.default
        text = (
            ",".join(default)
            if isinstance(default, list)
            else str(default).lower()
            if isinstance(default, bool)
            else str(default or "")
        )
        assert f"| `{text}` |" in line[0] if text else "| empty |" in line[0], line[0]


def test_every_check_is_documented_and_no_other() -> None:
    assert set(re.findall(r"weir\.[EW]\d{3}", DOCUMENT)) == {rule.id for rule in checks.RULES}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTLP_HTTP_PORT", "many"),
        ("DEBUG", "perhaps"),
        ("LOG_FORMAT", "xml"),
        ("LOG_LEVEL", "loud"),
        ("OBSERVE_EVERY_S", "5 s"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_with_its_name_value_and_meaning(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(f"WEIR_{name}", value)
    with pytest.raises(ConfigError) as refused:
        load()
    assert f"WEIR_{name}='{value}' is refused" in str(refused.value)
    assert str(Config.model_fields[name.lower()].description) in str(refused.value)


def test_hosts_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_ALLOWED_HOSTS", "weir.example.com, 10.0.0.7,")
    assert load().allowed_hosts == ["weir.example.com", "10.0.0.7"]


def test_a_relative_home_does_not_move_with_the_working_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WEIR_HOME", "here")
    monkeypatch.chdir(tmp_path)
    assert load().home == tmp_path / "here"


@pytest.mark.parametrize(
    ("host", "url"),
    [("0.0.0.0", "http://127.0.0.1:4318"), ("::", "http://[::1]:4318"), ("10.0.0.7", "http://10.0.0.7:4318")],
)
def test_a_receiver_bound_to_every_address_is_asked_on_loopback(config: Config, host: str, url: str) -> None:
    assert config.model_copy(update={"otlp_host": host}).telemetry_url == url


def test_the_longest_retention_is_one_for_the_settings_and_the_store(config: Config) -> None:
    assert ids(config.model_copy(update={"retention_days": MAX_RETENTION_DAYS})) == []
    assert IngestConfig(_env_file=None, retention_days=MAX_RETENTION_DAYS).retention_days == MAX_RETENTION_DAYS
    with pytest.raises(ValueError, match=f"less than or equal to {MAX_RETENTION_DAYS}"):
        IngestConfig(_env_file=None, retention_days=MAX_RETENTION_DAYS + 1)
