"""A message for Slack."""

import json

from controlplane.incidents.notify.core.notice import Link, Notice
from controlplane.incidents.notify.delivery.destinations import slack
from controlplane.incidents.notify.delivery.destinations.kind import Message
from tests.support.incidents.notices import AT


def test_slack_reads_a_message_that_pings_nobody_by_accident() -> None:
    made = Notice(
        "trigger",
        "k",
        1,
        AT,
        "<!here> p95 > 100 ms & rising",
        "critical",
        "weir",
        details={"stage": "queue", "tokens": [4096, 8192]},
        links=(Link("https://weir/incidents/1?a=1&b=2|x", "Incident"),),
    )
    post = slack.render(Message(made, "", "https://hooks.slack.com/services/T/B/secret"))
    text = json.loads(post.body)["text"]
    assert text.splitlines() == [
        "*CRITICAL* &lt;!here&gt; p95 &gt; 100 ms &amp; rising",
        "• stage: queue",
        "• tokens: [4096, 8192]",
        "<https://weir/incidents/1?a=1&amp;b=2%7Cx|Incident>",
    ]
    assert post.url == "https://hooks.slack.com/services/T/B/secret"
