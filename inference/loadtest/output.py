"""Writes a result to a file, in the form that the file's name says."""

import csv
import io
import sys
from pathlib import Path

import msgspec

from inference.loadtest import page
from inference.loadtest.core.result import Result


def write(result: Result, path: Path) -> None:
    """Raises OSError."""
    if path.suffix == ".html":
        path.write_text(page.html(result))
    elif path.suffix == ".csv":
        path.write_text(_csv(result))
    elif path.suffix == ".parquet":
        from pyarrow import parquet, table  # which take longer to import than all else

        parquet.write_table(table(result.samples), path)
    elif str(path) == "-":
        sys.stdout.buffer.write(msgspec.json.encode(result) + b"\n")
    else:
        path.write_bytes(msgspec.json.encode(result) + b"\n")


def _csv(result: Result) -> str:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(result.samples)
    rows.writerows(zip(*result.samples.values(), strict=True))
    return text.getvalue()
