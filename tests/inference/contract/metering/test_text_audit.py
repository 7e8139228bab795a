"""Hashes of texts are those that the module's own words describe, however the texts come."""

import hashlib
import hmac

from inference.contract.metering.text_audit import NO_KEY, TextAudit, TextKey, key_of


def test_a_hash_is_of_the_tenants_key_the_part_and_all_bytes() -> None:
    secret = hmac.digest(b"master", b"\0audit\0acme", "sha256")
    key = key_of("master", "acme")
    assert key == TextKey(secret, hmac.digest(secret, b"id", "sha256").hex()[:8])
    audit = TextAudit(key, b"question")
    assert audit.answer is None
    for part in (b"an", b"swer"):
        audit.answered(part)
    for text, whole in ((audit.prompt, b"prompt\0question"), (audit.answer, b"answer\0answer")):
        assert text
        assert str(text) == f"{key.id}:{hmac.new(secret, whole, hashlib.sha256).hexdigest()}"
        assert text.size_bytes == len(whole) - 7


def test_without_a_key_sizes_alone_are_known() -> None:
    audit = TextAudit(key_of("", "acme"), b"question")
    assert (str(audit.prompt), audit.prompt.size_bytes) == (NO_KEY, 8)
