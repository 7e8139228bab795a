"""Whatever is changed, removed, moved or added in the chain is found."""

from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controlplane.audit.core.chain import START, Link, first_break, hash_of

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
TOLD = st.dictionaries(st.sampled_from(["who", "action", "before", "after"]), VALUES)


@dataclass(frozen=True)
class Chain:
    links: list[Link]

    @property
    def head(self) -> tuple[int, str]:
        return (self.links[-1].number, self.links[-1].hash) if self.links else (0, START)


def chain_of(entries: list[dict[str, Any]]) -> Chain:
    links: list[Link] = []
    for number, content in enumerate(entries, 1):
        previous = links[-1].hash if links else START
        links.append(Link(number, content, previous, hash_of(number, content, previous)))
    return Chain(links)


@given(st.lists(TOLD, max_size=6))
def test_a_chain_that_nobody_touched_is_whole(entries: list[dict[str, Any]]) -> None:
    chain = chain_of(entries)
    assert first_break(chain.links, chain.head) == ""


@given(st.lists(TOLD, min_size=1, max_size=6), st.data())
def test_any_touched_entry_is_found(entries: list[dict[str, Any]], data: st.DataObject) -> None:
    chain = chain_of(entries)
    links, at = list(chain.links), data.draw(st.integers(0, len(entries) - 1), "at")
    link = links[at]
    how = data.draw(
        st.sampled_from(["content", "content and hash", "number", "previous", "removed", "repeated", "swapped"])
    )
    if how.startswith("content"):
        other = data.draw(TOLD.filter(lambda content: content != link.content))
        digest = hash_of(link.number, other, link.previous) if how == "content and hash" else link.hash
        links[at] = link._replace(content=other, hash=digest)
    elif how == "removed":
        del links[at]
    elif how == "repeated":
        links.insert(at, link)
    elif how == "swapped":
        to = data.draw(st.integers(0, len(entries) - 1))
        links[at], links[to] = links[to], links[at]
        if at == to:
            return
    else:
        links[at] = link._replace(**{how: 77 if how == "number" else "f" * 64})
    assert first_break(links, chain.head), how


def test_a_chain_that_is_made_anew_from_some_entry_on_has_another_head() -> None:
    """Only a head that is kept elsewhere shows it: within the chain everything fits again."""
    before = chain_of([{"who": "ada"}, {"who": "bob"}])
    after = chain_of([{"who": "eve"}, {"who": "bob"}])
    assert first_break(after.links, after.head) == ""
    assert "ends with entry 2" in first_break(after.links, before.head)
