"""Names of settings that nothing reads are said, and no others."""

import pytest
from structlog.testing import capture_logs

from inference.contract.logs import redact_text
from inference.contract.settings.names import NAMES, not_known, warn


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("WEIR_REDIS_ULR", "WEIR_REDIS_URL"),
        ("WEIR_METRIC_TOKEN", "WEIR_METRICS_TOKEN"),
        ("weir_retention_day", "WEIR_RETENTION_DAYS"),
        ("WEIR_XYZZY", ""),
        ("WEIR_", ""),
    ],
)
def test_a_name_that_nothing_reads_has_the_nearest_known_one_beside_it(name: str, nearest: str) -> None:
    assert not_known({name: "x"}) == {name: nearest}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("WEIR_REDIS_URL", ""),
        ("weir_redis_url", ""),
        ("WEIR_BENCH_LANE_PAIRS", "3"),
        ("WEIR_SOAK", "1"),
        ("WEIR_REQUIRE_ALL", "1"),
        ("WEIR_BACKEND_CREDENTIAL_HOSTED_API", "secret"),
        ("WEIR_LANE_SERVICE_HOST", "10.0.0.1"),
        ("WEIR_LANE_SERVICE_PORT", "8070"),
        ("WEIR_LANE_SERVICE_PORT_HTTP", "8070"),
        ("WEIR_CLICKHOUSE_PORT", "tcp://10.0.0.1:8123"),
        ("WEIR_CLICKHOUSE_PORT_8123_TCP", "tcp://10.0.0.1:8123"),
        ("WEIR_CLICKHOUSE_PORT_8123_TCP_ADDR", "10.0.0.1"),
        ("REDIS_ULR", "of another program"),
    ],
)
def test_names_of_other_processes_of_tests_and_of_services_are_known(name: str, value: str) -> None:
    assert not_known({name: value}) == {}


def test_a_line_names_them_all_and_no_value() -> None:
    with capture_logs() as logs:
        warn({"WEIR_REDIS_ULR": "redis://:hunter2@host", "WEIR_XYZZY": "hunter2", "WEIR_HOME": "/tmp"})
        warn({"WEIR_HOME": "/tmp"})
    (line,) = logs
    assert line["names"] == "WEIR_REDIS_ULR (meant is WEIR_REDIS_URL?), WEIR_XYZZY"
    assert "hunter2" not in str(line)


def test_no_name_looks_like_a_secret_in_the_log() -> None:
    assert [name for name in NAMES if name not in redact_text(f"{name}, {name}X")] == []
    assert "WEIR_BACKEND_CREDENTIALS_DIRECTORY" in redact_text("ignored is WEIR_BACKEND_CREDENTIALS_DIRECTORY")
