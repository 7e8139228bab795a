"""OpenSLO's published examples round-trip with every document, value, order of keys and comment."""

import json
from pathlib import Path

import pytest
import yaml

from controlplane.core.documents.reading import read
from controlplane.core.documents.writing import join_documents, write_yaml
from controlplane.slo.openslo.core.lint import lint
from controlplane.slo.openslo.core.schema import DEFINITIONS, faults_of

FILES = (
    "alert_conditions.yaml",
    "alert_notification_targets.yaml",
    "alert_policies.yaml",
    "data_sources.yaml",
    "services.yaml",
    "slis.yaml",
    "slos.yaml",
)


@pytest.fixture
def examples(shared_dir: Path) -> dict[str, str]:
    return {name: (shared_dir / "fixtures" / "openslo" / name).read_text() for name in FILES}


def as_others_read(text: str) -> list[object]:
    """With another reader, which leaves every scalar as it is written."""
    found: list[object] = []
    for document in yaml.load_all(text, Loader=yaml.BaseLoader):
        found += document if isinstance(document, list) else [document]
    return found


def test_they_are_valid_and_of_every_kind(examples: dict[str, str]) -> None:
    documents = [document for text in examples.values() for document in read(text)[0]]
    assert {document.kind for document in documents} == set(DEFINITIONS["document"]["properties"]["kind"]["enum"])
    assert [fault for document in documents for fault in faults_of("document", document.node)] == []


@pytest.mark.parametrize("name", FILES)
def test_they_round_trip_with_values_and_order_of_keys(examples: dict[str, str], name: str) -> None:
    documents, faults = read(examples[name], name)
    again, _ = read(join_documents(document.text for document in documents))
    assert faults == []
    assert [json.dumps(document.plain) for document in again] == [json.dumps(document.plain) for document in documents]
    assert as_others_read(join_documents(document.text for document in documents)) == as_others_read(examples[name])


@pytest.mark.parametrize("name", FILES)
def test_they_round_trip_when_written_anew(examples: dict[str, str], name: str) -> None:
    documents, _ = read(examples[name], name)
    for document in documents:
        [again], _ = read(write_yaml(document.plain))
        assert json.dumps(again.plain) == json.dumps(document.plain)


@pytest.mark.parametrize("name", FILES)
def test_several_documents_of_one_file_come_back_to_the_byte(examples: dict[str, str], name: str) -> None:
    documents, _ = read(examples[name], name)
    text = join_documents(f"# number {number}\n{document.text}# end\n" for number, document in enumerate(documents))
    again, _ = read(text)
    assert join_documents(document.text for document in again) == text


def test_linted_together_they_have_unknown_references_and_a_duplicate(examples: dict[str, str]) -> None:
    found = lint(examples)
    assert [problem.text().split(": ", 1)[0] for problem in found.errors] == ["services.yaml:24:11"]
    assert {problem.rule for problem in found.problems} == {"duplicate", "unknown-reference", "secret", "not-evaluated"}
    assert list(found.kept) == ["web-availability"]
