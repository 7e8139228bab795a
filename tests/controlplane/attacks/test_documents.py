"""Documents that are made to harm who reads them."""

import pytest

from controlplane.core.documents.reading import MAX_BYTES, MAX_DEPTH, read

LAUGHS = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10)
)


@pytest.mark.parametrize(
    "text",
    [
        LAUGHS,
        "a: &a [*a]",
        "[" * (MAX_DEPTH + 2) + "]" * (MAX_DEPTH + 2),
        "[" * 100_000,
        "a: 1\na: 2",
        "a: \x00",
        "x" * (MAX_BYTES + 1),
    ],
    ids=["laughs", "circle", "deep", "deeper", "twice", "nul", "long"],
)
def test_a_document_that_grows_when_it_is_read_is_refused(text: str) -> None:
    documents, problems = read(text)
    assert (documents, len(problems)) == ([], 1)
    assert problems[0].severity == "error" and len(problems[0].message) < 500


@pytest.mark.parametrize(
    "text",
    [
        "a: !!python/object/apply:os.system ['exit 1']",
        "a: !!python/object/new:subprocess.Popen {args: x}",
        "a: !!python/name:os.system ''",
        "a: !!binary eA==",
        "a: !!set {b: null}",
    ],
)
def test_a_tag_that_would_make_an_object_is_refused_by_its_name(text: str) -> None:
    documents, [problem] = read(text)
    assert documents == []
    assert problem.message.startswith("tag 'tag:yaml.org,2002:") and problem.message.endswith(
        "is not known: leave it out"
    )


def test_tags_that_say_what_a_value_is_anyway_are_taken() -> None:
    [document], problems = read("a: !!seq [!!int 1, !!str 2]\nb: !!map {}")
    assert (document.plain, problems) == ({"a": [1, "2"], "b": {}}, [])
