"""Each setting is checked, documented, and refused with a sentence when it is wrong."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import run_checks
from pytest_django import Settings

from controlplane import checks
from controlplane.config import Config, ConfigError
from controlplane.config.bounds import MAX_RETENTION_DAYS
from controlplane.telemetry.config import IngestConfig

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "settings.md").read_text()

WRONG_TOGETHER: list[tuple[str, dict[str, Any]]] = [
    ("weir.E001", {"home": Path("/dev/null/nowhere")}),
    ("weir.W004", {"allowed_hosts": ["weir.example.com"]}),
    ("weir.E061", {"encryption_keys": ["short"]}),
    ("weir.E010", {"otlp_http_port": 4317}),
    ("weir.E010", {"otlp_grpc_port": 0}),
    ("weir.W011", {"otlp_host": "0.0.0.0"}),
    ("weir.E013", {"snapshot_path": Path("/dev/null/nowhere/snapshot.json")}),
    ("weir.W044", {"snapshot_token": "guessable"}),
    ("weir.W016", {"metrics_token": "guessable"}),
    ("weir.E085", {"metrics_certificate": Path("/nowhere.pem")}),
    ("weir.E085", {"metrics_certificate": Path("/nowhere.pem"), "metrics_key": Path("/nowhere.key")}),
    ("weir.W022", {"gateway_url": "http://gateway:8080"}),
    ("weir.W024", {"https": True}),
    ("weir.W043", {"controller_host": "0.0.0.0"}),
    ("weir.E019", {"outbound_allow": ["http://10.0.0.1"]}),
    ("weir.E074", {"component_up_for_s": 5.0}),
    ("weir.E084", {"local_login": "break-glass"}),
]

WRONG_ALONE = [
    ("ALLOWED_HOSTS", "*", "such as weir.example.com"),
    ("ALLOWED_HOSTS", "", "such as weir.example.com"),
    ("BACKEND_LINK_LOCAL", "perhaps", "valid boolean"),
    ("SECRET_KEY", "short", "32 characters or more"),
    ("REDIS_URL", "http://127.0.0.1", "use redis://"),
    ("RESOURCES_NAMESPACE", "Weir_1", "match pattern"),
    ("STORE_DSN", "clickhouse://", "use clickhouse://"),
    ("STORE_DSN", "postgresql://host/x", "use clickhouse://"),
    ("STORE_DSN", "http://host:8123/weir", "use clickhouse://"),
    ("OTLP_HTTP_PORT", "-1", "greater than or equal to 0"),
    ("OTLP_GRPC_PORT", "70000", "less than or equal to 65535"),
    ("OTLP_ENDPOINT", "localhost:4318", "such as http://host:4318"),
    ("RETENTION_DAYS", "0", "greater than or equal to 1"),
    ("RETENTION_DAYS", str(MAX_RETENTION_DAYS + 1), f"less than or equal to {MAX_RETENTION_DAYS}"),
    ("GATEWAY_URL", "http://localhost:8080/v1", "without a path"),
    ("GATEWAY_URL", "", "without a path"),
    ("TRUSTED_PROXIES", "proxy.example.com", "such as 10.0.0.0/24"),
    ("WEB_URL", "http://weir:8000/api", "without a path"),
    ("TELEMETRY_URL", "http://weir:4318/v1", "without a path"),
    ("LANE_URL", "http://weir-lane:8070/v1", "without a path"),
    ("LOCAL_CLUSTER_URL", "http://127.0.0.1:1/api", "without a path"),
    ("DECISIONS_DAYS", "0", "greater than or equal to 1"),
    ("WORKER_METRICS", "9464", "use host:port"),
    ("OBSERVE_EVERY_S", "1", "greater than or equal to 2"),
    ("OBSERVE_EVERY_S", "3601", "less than or equal to 3600"),
    ("CONTROLLER_PORT", "70000", "less than or equal to 65535"),
    ("PUBLIC_URL", "weir.example.com", "use an HTTP URL"),
    ("PUBLIC_URL", "", "use an HTTP URL"),
    ("PUBLIC_URL", "https://weir.example.com/?a=b", "such as https://weir.example.com"),
    ("OPERATED_BY", " ", "such as serving"),
    ("OPERATED_BY", "x" * 101, "1 to 100 characters"),
    ("COMPONENT_PAGE_AFTER_S", "1", "greater than or equal to 5"),
    ("COMPONENT_PAGE_AFTER_S", "301", "less than or equal to 300"),
    ("COMPONENT_TICKET_AFTER_S", "1", "greater than or equal to 5"),
    ("COMPONENT_TICKET_AFTER_S", "4000", "less than or equal to 3600"),
    ("COMPONENT_UP_FOR_S", "4000", "less than or equal to 3600"),
    ("ROLLUP_RETENTION_DAYS", "34", "greater than or equal to 35"),
    ("FORECAST_PROCESSES", "0", "greater than or equal to 1"),
    ("HEARTBEAT_URL", "ftp://elsewhere", "use an HTTP URL"),
    ("API_REQUESTS_PER_MINUTE", "-1", "greater than or equal to 0"),
    ("KUBECONFIGS_DIR", "/dev/null", "does not point to a directory"),
    ("LOG_FORMAT", "xml", "'console' or 'json'"),
    ("LOG_LEVEL", "loud", "'debug', 'info', 'warning' or 'error'"),
    ("OIDC", "keycloak", "it is no JSON"),
    ("SAML", "okta", "it is no JSON"),
    ("OIDC_REREAD_S", "-1", "greater than or equal to 0"),
    ("OIDC_OUTAGE_S", "5", "greater than or equal to 60"),
    ("LOCAL_LOGIN", "nobody", "'everybody' or 'break-glass'"),
    ("REQUIRE_SECOND_FACTOR", "perhaps", "valid boolean"),
    ("MAIL_URL", "http://mail.example.com", "use smtp://"),
    ("MAIL_FROM", "weir", "such as weir@example.com"),
    ("OTLP_HTTP_PORT", "many", "valid integer"),
    ("OBSERVE_EVERY_S", "5 s", "valid number"),
]
"""Refused when the environment is read: the variable, its value, and what the message says to do."""


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(_env_file=None, home=tmp_path)


def ids(config: Config) -> list[str | None]:
    return [message.id for message in checks.broken(config)]


def test_the_defaults_pass_every_check(config: Config) -> None:
    assert ids(config) == []


@pytest.mark.parametrize(("expected", "change"), WRONG_TOGETHER)
def test_values_that_do_not_fit_each_other_are_named_with_a_remedy(
    config: Config, expected: str, change: dict[str, Any]
) -> None:
    (message,) = checks.broken(config.model_copy(update=change))
    assert message.id == expected
    assert message.hint
    assert any(f"WEIR_{name.upper()}" in message.msg for name in change)


def test_every_rule_has_a_case_above() -> None:
    assert {rule.id for rule in checks.RULES} == {case[0] for case in WRONG_TOGETHER}
    assert len({rule.id for rule in checks.RULES}) == len(checks.RULES)


def test_every_setting_has_a_rule_or_is_refused_when_it_is_read() -> None:
    read = {name.lower() for name, _, _ in WRONG_ALONE} | {"database_url"}  # test_databases.py has its cases
    assert {name for rule in checks.RULES for name in rule.settings} | read == Config.model_fields.keys()


def test_no_message_repeats_a_secret(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "hunter2"
    for name, value in {
        "SECRET_KEY": secret,
        "REDIS_URL": f"amqp://:{secret}@host",
        "STORE_DSN": f"x://u:{secret}@h",
        "HEARTBEAT_URL": f"ftp://{secret}",
    }.items():
        monkeypatch.setenv(f"WEIR_{name}", value)
    with pytest.raises(ConfigError) as refused:
        Config.load()
    assert len(str(refused.value).splitlines()) == 4
    (message,) = checks.broken(config.model_copy(update={"metrics_token": secret}))
    assert secret not in str(refused.value) + message.msg
    assert secret not in repr(
        config.model_copy(update={"metrics_token": secret, "redis_url": f"redis://:{secret}@host"})
    )


def test_django_runs_the_checks(settings: Settings) -> None:
    settings.CONFIG = settings.CONFIG.model_copy(update={"component_up_for_s": 1.0})
    assert "weir.E074" in [message.id for message in run_checks()]


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


@pytest.mark.parametrize(("name", "value", "remedy"), WRONG_ALONE)
def test_a_wrong_value_is_refused_with_its_name_value_meaning_and_remedy(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, remedy: str
) -> None:
    monkeypatch.setenv(f"WEIR_{name}", value)
    with pytest.raises(ConfigError) as refused:
        Config.load()
    field = Config.model_fields[name.lower()]
    shown = f"='{value}'" if field.repr else ""
    assert f"WEIR_{name}{shown} is refused" in str(refused.value)
    assert remedy in str(refused.value)
    assert str(field.description) in str(refused.value)


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("WEIR_CONTROLLER_PORT", "tcp://10.96.0.1:8090", "input should be a valid integer"),
        ("WEIR_DATABASE_URL", "mysql://x/y", "use sqlite"),
        ("WEIR_HOME", "/dev/null/weir", "let this user write there"),
    ],
)
def test_a_process_says_what_is_wrong_in_a_line(variable: str, value: str, says: str, tmp_path: Path) -> None:
    environment = os.environ | {"WEIR_HOME": str(tmp_path), variable: value}
    ended = subprocess.run(
        [sys.executable, "-c", "import controlplane.settings"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr.count("\n")) == (1, 1), ended.stderr
    assert all(part in ended.stderr for part in ("Weir cannot start: ", variable, says)), ended.stderr


def test_the_document_says_which_settings_are_refused_when_they_are_read() -> None:
    refused = {f"WEIR_{name}" for name, _, _ in WRONG_ALONE} | {"WEIR_DATABASE_URL"}
    assert set(re.findall(r"^\| `(WEIR_\w+)` .*\| when read[^|]*\|$", DOCUMENT, re.M)) == refused


def test_installations_on_one_host_have_cookies_of_their_own(tmp_path: Path) -> None:
    """Browsers send the cookies of a host to each of its ports: to log in to one ended the session of the other."""

    def cookies(home: str) -> list[str]:
        code = "from django.conf import settings as its; print(its.SESSION_COOKIE_NAME, its.CSRF_COOKIE_NAME)"
        env = {"DJANGO_SETTINGS_MODULE": "controlplane.settings", "WEIR_HOME": str(tmp_path / home)}
        ran = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, **env}, capture_output=True, text=True, check=True
        )
        return ran.stdout.split()

    one, other = cookies("one"), cookies("other")
    assert len({*one, *other}) == 4
    assert cookies("one") == one


def test_hosts_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_ALLOWED_HOSTS", "weir.example.com, 10.0.0.7,")
    assert Config.load().allowed_hosts == ["weir.example.com", "10.0.0.7"]


def test_a_relative_home_does_not_move_with_the_working_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WEIR_HOME", "here")
    monkeypatch.chdir(tmp_path)
    assert Config.load().home == tmp_path / "here"


@pytest.mark.parametrize(
    ("host", "url"),
    [("0.0.0.0", "http://127.0.0.1:4318"), ("::", "http://[::1]:4318"), ("10.0.0.7", "http://10.0.0.7:4318")],
)
def test_a_receiver_bound_to_every_address_is_asked_on_loopback(config: Config, host: str, url: str) -> None:
    assert config.model_copy(update={"otlp_host": host}).receiver_url == url


def test_the_longest_retention_is_one_for_the_settings_and_the_store() -> None:
    assert Config(_env_file=None, retention_days=MAX_RETENTION_DAYS).retention_days == MAX_RETENTION_DAYS
    assert IngestConfig(_env_file=None, retention_days=MAX_RETENTION_DAYS).retention_days == MAX_RETENTION_DAYS
    with pytest.raises(ValueError, match=f"less than or equal to {MAX_RETENTION_DAYS}"):
        IngestConfig(_env_file=None, retention_days=MAX_RETENTION_DAYS + 1)


def test_a_receiver_elsewhere_is_asked_where_the_setting_says(config: Config) -> None:
    given = config.model_copy(update={"telemetry_url": "http://weir-telemetry:4318/", "otlp_host": "0.0.0.0"})
    assert given.receiver_url == "http://weir-telemetry:4318"
