"""`manage.py openslo lint`, and `./weir` with OpenSLO files: output and exit codes."""

import json
from pathlib import Path

import pytest
from django.core.management import CommandError

from controlplane.fleet.models import Team
from controlplane.slo.models import StoredObjective
from controlplane.slo.openslo.models import AppliedDocument
from tests.support import commands
from tests.support.slo.openslo_files import FOREIGN, slo

pytestmark = pytest.mark.django_db


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    Team.objects.create(name="serving")
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "chat.yaml").write_text(slo())
    (tmp_path / "web.yml").write_text(FOREIGN)
    (tmp_path / "notes.txt").write_text("no YAML: at: all")
    return tmp_path


def run(*arguments: str) -> tuple[int, str]:
    return commands.run("openslo" if arguments[0] == "lint" else "weir", *arguments)


def test_lint_of_good_files_exits_with_0_and_counts_warnings(folder: Path) -> None:
    code, text = run("lint", str(folder))
    assert code == 0
    assert f"{folder}/web.yml:16:27: warning: metric source of type 'Prometheus' is kept" in text
    assert text.endswith("3 documents: no errors, 1 warning\n")
    assert run("lint", "--strict", str(folder))[0] == 1


def test_lint_can_speak_json_and_github(folder: Path) -> None:
    bad = folder / "bad.yaml"
    bad.write_text("kind: Slo\n")
    code, text = run("lint", "--format", "json", str(bad))
    first, second = json.loads(text)
    assert code == 1
    assert (first["line"], first["rule"], second["column"]) == (1, "required", 7)
    code, text = run("lint", "--format", "github", str(bad))
    assert code == 1
    assert text.splitlines()[0].startswith(f"::error file={bad},line=1,col=1,title=required::apiVersion is missing")


def test_apply_says_what_it_did_and_the_second_time_that_nothing_changed(folder: Path) -> None:
    assert run("diff", str(folder))[0] == 1
    code, text = run("apply", str(folder))
    assert code == 0
    assert text.splitlines() == [
        "+ SLO chat-ttft",
        "+ SLO web (metric source of type 'Prometheus' is kept and not evaluated: Weir measures those of type weir itself)",
        "+ SLI web",
        "3 created.",
    ]
    code, text = run("apply", str(folder))
    assert (code, text.splitlines()[-1]) == (0, "Nothing changed: 3 unchanged.")
    assert run("diff", str(folder))[0] == 0


def test_export_writes_what_can_be_applied_again(folder: Path) -> None:
    run("apply", str(folder))
    _, text = run("export", "SLO")
    assert slo() in text and "kind: SLI" in text
    out = folder / "out"
    assert run("export", "--to", str(out))[0] == 0
    assert (out / "slo-chat-ttft.yaml").read_text() == slo() and not list(out.glob("objective-*"))
    assert run("apply", "--owner-label", "", str(out / "slo-chat-ttft.yaml"))[0] == 1  # it belongs to a repository
    StoredObjective.objects.all().delete()
    AppliedDocument.objects.all().delete()
    assert run("apply", "--owner-label", "", str(out / "slo-chat-ttft.yaml"))[0] == 0
    assert AppliedDocument.objects.get().label == ""


def test_an_unreadable_file_exits_with_2(folder: Path) -> None:
    for path, words in (
        (folder / "absent.yaml", "No such file"),
        (folder / "empty", "has no .yaml or .yml file"),
        (folder / "latin.yaml", "is not UTF-8 text"),
    ):
        (folder / "empty").mkdir(exist_ok=True)
        (folder / "latin.yaml").write_bytes(b"name: caf\xe9")
        with pytest.raises(CommandError, match=words) as raised:
            run("lint", str(path))
        assert raised.value.returncode == 2
