"""A runbook's text becomes steps, and nothing of it but what Markdown means reaches a page."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.incidents.core import runbook

LISTS = (
    "# Queue\n\nSee [the queue](/latency).\n\n1. Look at `queue`\n   - of each pool\n2. [ ] Roll **back** the canary\n\n"
    "Else:\n\n* Page *Tom*\n"
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (LISTS, ["Look at queue", "Roll back the canary", "Page Tom"]),
        ("Before.\n\n## Look\nat the queue\n\n## Roll back\n\n> ## not this\n", ["Look", "Roll back"]),
        ("Ask Tom.", []),
        ("", []),
        ("-\n- ```\n  weir roll back\n  ```\n", ["", "weir roll back"]),
    ],
)
def test_items_of_lists_or_else_headings_are_steps(text: str, words: list[str]) -> None:
    steps = runbook.steps(text)
    assert [step.words for step in steps] == words
    assert [step.number for step in steps] == list(range(1, len(words) + 1))


def test_what_stands_between_and_inside_steps_is_kept() -> None:
    html = [block.html for block in runbook.blocks(LISTS)]
    assert [block.number for block in runbook.blocks(LISTS)] == [0, 1, 2, 0, 3]
    assert '<a href="/latency" rel="noreferrer">the queue</a>' in html[0]
    assert "of each pool" in html[1] and "<strong>back</strong>" in html[2] and "[ ]" not in html[2]
    assert "Else:" in html[3]


class Read(HTMLParser):
    """What a browser would make of it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.given: list[tuple[str, str | None]] = []
        self.feed("".join(block.html for block in runbook.blocks(text)))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.given += attrs


HARMLESS = {
    "a", "blockquote", "br", "code", "em", "h3", "hr", "li", "ol", "p", "pre", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
PARTS = st.sampled_from(
    [
        *(
            "<script>",
            "<img src=x onerror=x>",
            "<java\tscript:x>",
            "&lt;b&gt;",
            "[a](javascript:x)",
            "[a](//evil.example)",
        ),
        *(
            "![a](https://evil.example/x.png)",
            "[a](data:text/html,x)",
            "[a](https://ok.example 'on\"x')",
            "[a]: vbscript:x\n",
            "[a]",
        ),
        *("\n\n", "\n- ", "\n1. ", "\n# ", "> ", "```", "`", "|a|b|\n|-|-|\n", "&#106;avascript:", "**", "\\", " "),
    ]
)


@given(st.lists(PARTS | st.text(max_size=8), max_size=12).map("".join))
def test_nothing_of_a_text_runs_or_leads_where_it_must_not(text: str) -> None:
    read = Read(text)
    assert read.tags <= HARMLESS
    assert {name for name, _ in read.given} <= {"class", "href", "rel", "start", "style", "title"}
    assert all((value or "").startswith("text-align:") for name, value in read.given if name == "style")
    assert all(runbook.LINKS.match(value or "") for name, value in read.given if name == "href")
