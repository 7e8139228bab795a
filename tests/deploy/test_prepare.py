"""What `make run` does with a database that another version has made."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.db import connection

from deploy.local.ports import LOOPBACK, free_port
from deploy.local.prepare import other_tables
from deploy.local.process import ROOT


@pytest.mark.django_db
def test_a_table_with_other_columns_is_named() -> None:
    assert other_tables() == []
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE fleet_region ADD COLUMN former integer")
    assert other_tables() == ["fleet_region"]


def test_a_database_that_cannot_be_reached_is_named_in_a_line(tmp_path: Path) -> None:
    url = f"postgresql://weir:hunter2@{LOOPBACK}:{free_port()}/slo"
    environment = {**os.environ, "WEIR_HOME": str(tmp_path), "WEIR_DATABASE_URL": url}
    command = (sys.executable, "-m", "deploy.local.prepare", "fleet.json")
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == os.EX_CONFIG, ended.stderr
    said = ended.stdout.splitlines()
    assert said[-1].startswith("the database slo at ") and said[-1].endswith(": start it, or correct WEIR_DATABASE_URL")
    assert "Traceback" not in ended.stdout + ended.stderr and "hunter2" not in ended.stdout + ended.stderr
