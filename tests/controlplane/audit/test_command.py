"""`manage.py audit`."""

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from controlplane.audit.models import Entry, Head
from controlplane.fleet.models import Tier

pytestmark = pytest.mark.django_db


def audit(*arguments: str) -> str:
    out = StringIO()
    call_command("audit", *arguments, stdout=out)
    return out.getvalue()


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
