"""A signed webhook, held to Standard Webhooks 1.0."""

import base64
import hashlib
import hmac
import json

import pytest

from controlplane.incidents.notify.delivery.destinations import webhook
from controlplane.incidents.notify.delivery.destinations.kind import Message
from tests.support.incidents.notices import notice


def test_a_webhook_is_signed_as_standard_webhooks_lays_down() -> None:
    secret = webhook.new_secret()
    post = webhook.render(Message(notice("trigger", 1), "https://example.com/hook", secret, "weir-7", 1_700_000_000))
    signed = b"weir-7.1700000000." + post.body
    digest = hmac.new(base64.b64decode(secret.removeprefix("whsec_")), signed, hashlib.sha256).digest()
    assert post.headers["webhook-id"] == "weir-7"
    assert post.headers["webhook-timestamp"] == "1700000000"
    assert post.headers["webhook-signature"] == "v1," + base64.b64encode(digest).decode()
    body = json.loads(post.body)
    assert body["type"] == "incident.trigger"
    assert body["data"]["summary"] == "incident-1 trigger"


def test_the_specification_s_own_example_is_signed_as_it_says() -> None:
    """From the specification's libraries: secret, id, time and payload with the signature that they must have."""
    found = webhook.signature(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, b'{"test": 2432232314}'
    )
    assert found == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_!!!", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_c2hvcnQ="])
def test_a_secret_that_is_none_is_refused(secret: str) -> None:
    with pytest.raises(ValueError, match="the secret is not whsec_"):
        webhook.key(secret)
