"""What `make run` does with a database that another version has made."""

import pytest
from django.db import connection

from deploy.local.prepare import other_tables


@pytest.mark.django_db
def test_a_table_with_other_columns_is_named() -> None:
    assert other_tables() == []
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE fleet_region ADD COLUMN former integer")
    assert other_tables() == ["fleet_region"]
