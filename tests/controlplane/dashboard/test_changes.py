"""A change that was posted is a mark on the charts of its time."""

import json
import re
from datetime import UTC, datetime

from django.test import Client

from tests.support.web.served import Filled


def test_a_change_posted_by_api_is_marked_on_the_latency_chart(caller: Client, reader: Client, served: Filled) -> None:
    at = datetime.fromtimestamp((served.from_ns + served.to_ns) / 2e9, UTC)
    posted = {"identity": "deploy/7", "summary": "chat-large 1.7", "source": "ci", "at": at.isoformat()}
    response = caller.post("/api/v1/changes", json.dumps(posted), content_type="application/json")
    assert response.status_code in (200, 201), response.content
    for view in ("stages", "heatmap"):
        page = reader.get("/latency", {**served.range, "view": view}).content.decode()
        [found] = re.findall(r'<script id="figure"[^>]*>(.*?)</script>', page, re.S)
        layout = json.loads(found)["layout"]
        [mark] = [one for one in layout["annotations"] if "chat-large 1.7" in one.get("hovertext", "")]
        assert mark["x"] == at.timestamp() * 1000
        assert [line["x0"] for line in layout["shapes"] if line["type"] == "line"] == [mark["x"]]
        assert "chat-large 1.7 (ci)" in page
