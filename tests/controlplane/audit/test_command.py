"""`manage.py audit`."""

import json
from datetime import timedelta
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
from django.core.management import CommandError

from controlplane.audit.core.chain import hash_of
from controlplane.audit.models import Entry, Head
from controlplane.fleet.models import Tier
from inference.contract.metering.text_audit import TextAudit, key_of
from tests.support.commands import said

pytestmark = pytest.mark.django_db


def audit(*arguments: str) -> str:
    return said("audit", *arguments)


@pytest.fixture
def three() -> list[Entry]:
    for name in ("gold", "silver", "bronze"):
        Tier.objects.create(name=name, priority=1)
    return list(Entry.objects.order_by("-number")[:3])[::-1]


def test_an_audit_that_nobody_touched_is_whole(three: list[Entry]) -> None:
    assert audit("verify").startswith(f"{three[-1].number} entries, whole: the last has the hash {three[-1].hash}")


def test_each_way_of_touching_it_is_said_with_the_number(three: list[Entry]) -> None:
    entry = three[1]
    for changes in (
        {"who": "eve"},
        {"after": {"name": "silver", "priority": 2}},
        {"at": three[0].at},
        {"hash": "0" * 64},
    ):
        before = {name: getattr(entry, name) for name in changes}
        Entry.objects.filter(pk=entry.pk).update(**changes)
        with pytest.raises(CommandError, match=f"entry {entry.number} was changed"):
            audit("verify")
        Entry.objects.filter(pk=entry.pk).update(**before)
    assert "whole" in audit("verify")
    Entry.objects.filter(pk=entry.pk).delete()
    with pytest.raises(CommandError, match=f"entry {entry.number} is missing"):
        audit("verify")


def test_entries_that_are_cut_off_at_the_end_show(three: list[Entry], tmp_path: Path) -> None:
    kept = tmp_path / "head"
    kept.write_text(audit("head"))
    Entry.objects.filter(pk=three[2].pk).delete()
    with pytest.raises(CommandError, match="entries at its end were removed or added"):
        audit("verify")
    Head.objects.update(number=three[1].number, hash=three[1].hash)  # and who did it knew of the head
    assert "whole" in audit("verify")
    with pytest.raises(CommandError, match=f"entry {three[2].number} was removed"):
        audit("verify", "--head", str(kept))
    kept.write_text(kept.read_text().replace(str(three[2].number), str(three[1].number), 1))
    with pytest.raises(CommandError, match="has no head of this installation"):
        audit("verify", "--head", str(kept))


def test_a_head_from_before_is_in_the_chain(three: list[Entry], tmp_path: Path) -> None:
    kept = tmp_path / "head"
    kept.write_text(audit("head"))
    Tier.objects.create(name="iron", priority=1)
    assert "whole" in audit("verify", "--head", str(kept))


def test_the_export_has_all_that_is_hashed(three: list[Entry], capsys: pytest.CaptureFixture[str]) -> None:
    audit("export", "--after", str(three[0].number))
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["number"] for line in lines] == [three[1].number, three[2].number]
    assert lines[0] == {
        "number": three[1].number,
        **three[1].content,
        "previous": three[1].previous,
        "hash": three[1].hash,
    }


def aged(entries: list[Entry], days: int) -> None:
    """As they would stand if they had been written so long ago."""
    head = Head.objects.get()
    previous = entries[0].previous
    for entry in Entry.objects.filter(number__gte=entries[0].number).order_by("number"):
        if entry.number <= entries[-1].number:
            entry.at -= timedelta(days=days)
        entry.previous, entry.hash = previous, hash_of(entry.number, entry.content, previous)
        entry.save()
        previous = entry.hash
    head.hash = previous
    head.save()


def test_what_is_old_is_removed_on_purpose_and_what_stays_is_whole(three: list[Entry], tmp_path: Path) -> None:
    everything = list(Entry.objects.order_by("number"))
    aged([everything[0], *three[:2]], 100)
    kept_head = tmp_path / "head"
    kept_head.write_text(audit("head"))
    count = three[1].number - everything[0].number + 1
    assert audit("prune", "--days", "90") == f"{count} entries are removed\n"
    assert [entry.action for entry in Entry.objects.order_by("number")] == ["created", "pruned"]
    assert audit("verify", "--head", str(kept_head)).startswith("2 entries, whole")
    assert audit("prune", "--days", "90") == "no entry is older\n"
    Tier.objects.create(name="tin", priority=1)
    assert audit("verify").startswith("3 entries, whole")


def test_a_beginning_that_was_removed_otherwise_is_found(three: list[Entry]) -> None:
    head = Head.objects.get()
    Entry.objects.filter(number__lte=three[1].number).delete()
    with pytest.raises(CommandError, match="entry 1 is missing"):
        audit("verify")
    head.base_number, head.base_hash = three[1].number, three[1].hash
    head.save()
    with pytest.raises(
        CommandError, match=f"until {three[1].number} are gone, and no entry says that they were removed"
    ):
        audit("verify")


def test_a_chain_that_is_broken_is_not_pruned_and_90_days_stay(three: list[Entry]) -> None:
    with pytest.raises(CommandError, match="keep 90 days or more"):
        audit("prune", "--days", "89")
    Entry.objects.filter(pk=three[0].pk).update(who="nobody")
    with pytest.raises(CommandError, match="was changed"):
        audit("prune", "--days", "90")


def test_a_head_that_is_older_than_what_is_kept_says_so(three: list[Entry], tmp_path: Path) -> None:
    kept_head = tmp_path / "head"
    kept_head.write_text(audit("head"))
    Tier.objects.create(name="tin", priority=1)
    Tier.objects.create(name="zinc", priority=1)
    aged(list(Entry.objects.order_by("number"))[:-1], 100)
    assert "removed" in audit("prune", "--days", "90")
    with pytest.raises(CommandError, match="are pruned: take a newer one"):
        audit("verify", "--head", str(kept_head))


def test_a_text_has_the_hash_that_the_gateways_give_it(monkeypatch: pytest.MonkeyPatch) -> None:
    body = b'{"model": "m"}'
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(body)))
    with pytest.raises(CommandError, match="set WEIR_USER_HASH_KEY"):
        audit("match", "prompt", "acme")
    monkeypatch.setenv("WEIR_USER_HASH_KEY", "k" * 32)
    assert audit("match", "prompt", "acme") == f"{TextAudit(key_of('k' * 32, 'acme'), body).prompt}\n"
    assert audit("key", "acme") == f"{key_of('k' * 32, 'acme').secret.hex()}\n" != audit("key", "other")
