"""Files, batches and responses as OpenAI's client reads them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from controlplane.lane.core import jobs, states
from controlplane.lane.models import Batch, Callback, StoredFile
from controlplane.lane.store.jobs import Standing


def _unix(at: datetime | None) -> int | None:
    return int(at.timestamp()) if at else None


def file(row: StoredFile) -> dict[str, Any]:
    return {
        "id": row.pk,
        "object": "file",
        "bytes": row.bytes,
        "created_at": _unix(row.created_at),
        "expires_at": _unix(row.expires_at),
        "filename": row.filename,
        "purpose": row.purpose,
        "status": "processed",
        "status_details": None,
    }


def batch(row: Batch) -> dict[str, Any]:
    problems = [
        {"code": it["code"], "line": it["line"] or None, "message": it["message"], "param": it["param"] or None}
        for it in row.problems
    ]
    return {
        "id": row.name,
        "object": "batch",
        "endpoint": row.endpoint,
        "model": row.model or None,
        "errors": {"object": "list", "data": problems} if problems else None,
        "input_file_id": row.input_file_id,
        "completion_window": row.completion_window,
        "status": row.status,
        "output_file_id": row.output_file_id or None,
        "error_file_id": row.error_file_id or None,
        "created_at": _unix(row.created_at),
        "in_progress_at": _unix(row.in_progress_at),
        "expires_at": _unix(row.expires_at),
        "finalizing_at": _unix(row.finalizing_at),
        "cancelling_at": _unix(row.cancelling_at),
        **{f"{end}_at": _unix(row.ended_at) if row.status == end else None for end in states.ENDED},
        "request_counts": row.counts(),
        "usage": _usage(row) if row.says_tokens else None,
        "metadata": row.metadata,
    }


def _usage(row: Batch) -> dict[str, Any]:
    return {
        "input_tokens": row.input_tokens,
        "input_tokens_details": {"cached_tokens": row.cached_tokens},
        "output_tokens": row.output_tokens,
        "output_tokens_details": {"reasoning_tokens": row.reasoning_tokens},
        "total_tokens": row.input_tokens + row.output_tokens,
    }


def job(it: Standing) -> dict[str, Any]:
    """With its result, if it has one."""
    status_code, body = it.answer
    return job_of_list(it) | {
        "result": {"status_code": status_code, "body": body} if status_code else None,
        "error": jobs.error_of(status_code, it.line.code, body)
        if it.status in (states.FAILED, states.EXPIRED)
        else None,
    }


def job_of_list(it: Standing) -> dict[str, Any]:
    row = it.row
    return {
        "id": row.name,
        "object": "job",
        "endpoint": row.endpoint,
        "model": row.model,
        "status": it.status,
        "completion_window": row.completion_window,
        "created_at": _unix(row.created_at),
        "expires_at": _unix(row.expires_at),
        "ended_at": _unix(row.ended_at),
        "kept_until": _unix(row.kept_until),
        "metadata": row.metadata,
        "callback": _callback(row.callback_url, it.callback) if row.callback_url else None,
    }


def _callback(url: str, sent: Callback | None) -> dict[str, Any]:
    """How its webhook stands: `waiting` until the job has ended."""
    if sent is None:
        return {"url": url, "status": "waiting", "attempts": 0, "status_code": None, "error": None}
    return {
        "url": url,
        "status": sent.state,
        "attempts": sent.attempts,
        "status_code": sent.status,
        "error": sent.error or None,
    }


def listing(rows: Sequence[dict[str, Any]], has_more: bool) -> dict[str, Any]:
    return {
        "object": "list",
        "data": rows,
        "first_id": rows[0]["id"] if rows else None,
        "last_id": rows[-1]["id"] if rows else None,
        "has_more": has_more,
    }
