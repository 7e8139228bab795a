"""Runs tests of accounts, fleet, incidents, objectives and set-up on PostgreSQL too."""

import os
import subprocess
import sys
from pathlib import Path

from deploy.local.process import ROOT
from tests.support.postgresql import postgresql
from tests.support.soak import sized

FIRST = (
    "incidents/notify/delivery/test_outbox.py::test_a_notice_that_is_rolled_back_with_its_incident_was_never_there",
    "incidents/notify/delivery/test_outbox.py::test_two_destinations_of_one_service_are_told_once_and_a_sequence_comes_once",
    "lane/store/test_changes.py",
    "lane/store/test_claim_protocol.py",
    "incidents/decide/test_engine.py::test_the_database_refuses_a_second_open_incident_of_a_key",
    "incidents/decide/test_engine.py::test_a_failing_outbox_leaves_no_trace_of_the_tick",
    "core/test_lease.py",
    "test_unkept.py",
    "slo/test_save.py::test_a_saved_objective_is_read_unchanged",
    "fleet/test_publish.py::test_writers_at_the_same_moment_leave_the_newest_version_in_force",
    "fleet/test_publish.py::test_an_edit_is_published_whole_or_not_at_all",
    "fleet/test_publish.py::test_two_machines_that_publish_at_the_same_moment_make_two_versions",
    "test_bootstrap.py::test_a_second_run_changes_nothing",
    "test_bootstrap.py::test_a_lost_database_takes_up_the_secrets_of_the_files",
)
"""Locks, constraints, upserts and set-up: where databases differ. `make test-soak` runs their files whole."""
MORE = (
    "accounts/test_api_tokens.py",
    "accounts/test_login.py",
    "fleet/test_admin.py",
    "fleet/test_seed.py",
    "fleet/observe/test_store_observation.py",
    "incidents/notify/delivery/test_key_lock.py",
    "incidents/notify/delivery/test_sealed.py",
    "incidents/notify/delivery/test_sender.py",
    "incidents/notify/delivery/test_storm.py",
    "incidents/act/test_reopen.py",
    "incidents/act/test_silencing.py",
    "incidents/report/test_unnotified.py",
    "incidents/notify/test_changes.py",
    "lane/store/test_callbacks.py",
    "lane/store/test_events.py",
    "lane/store/test_killed_between_effects.py",
    "slo/evaluate/test_states.py",
)


def _file(part: str) -> str:
    return part.partition("::")[0]


def test_every_file_that_runs_there_exists() -> None:
    """Most of them run in `make test-soak` alone, which would find it late."""
    here = Path(__file__).parent
    assert [part for part in FIRST + MORE if not (here / _file(part)).is_file()] == []


def test_what_the_database_decides_passes_on_postgresql(tmp_path: Path) -> None:
    parts = sized(FIRST, soak=(*dict.fromkeys(map(_file, FIRST)), *MORE))
    command = [sys.executable, "-m", "pytest", "-q", "--migrations", *(f"tests/controlplane/{part}" for part in parts)]
    with postgresql() as server:
        environment = {**os.environ, "WEIR_DATABASE_URL": server.url, "WEIR_HOME": str(tmp_path / "home")}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
