"""Reads YAML text as documents with positions.

Values follow YAML 1.2's core schema, as OpenSLO's own tools read them: `yes`, `12:30` and `2022-01-01 12:00:00` are text. The tree is built
from parser events, because the library's composer recurses without bound on deep nesting and accepts a key given twice.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from controlplane.core.documents.node import Node, Plain, Scalar
from controlplane.core.documents.problem import Mark, Problem, shown
from controlplane.core.documents.writing import write_yaml

MAX_BYTES = 2 * 1024 * 1024
MAX_DEPTH = 40
MAX_NODES = 200_000  # with every alias at its full size
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
NULLS = ("", "~", "null", "Null", "NULL")
INTEGER = re.compile(r"[-+]?[0-9]{1,30}")
OTHER_BASES = re.compile(r"0o[0-7]{1,30}|0x[0-9a-fA-F]{1,30}")
FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
LINE = re.compile(
    "[^\\n\\r\\x85\\u2028\\u2029]*(?:\\r\\n|[\\n\\r\\x85\\u2028\\u2029])|[^\\n\\r\\x85\\u2028\\u2029]+\\Z"
)
SEPARATOR = re.compile(r"(---|\.\.\.)(?=\s|$)")
TAGS = {"tag:yaml.org,2002:str": str, "tag:yaml.org,2002:int": int, "tag:yaml.org,2002:float": float}
TAGS_OF_NODES = ("tag:yaml.org,2002:seq", "tag:yaml.org,2002:map")


@dataclass(frozen=True, slots=True)
class Document:
    """One object. `text` is its YAML with comments; an entry of a list becomes a document of its own."""

    source: str
    node: Node
    text: str

    @property
    def kind(self) -> str:
        node = self.node.at("kind")
        return node.text if node else ""

    @property
    def name(self) -> str:
        node = self.node.at("metadata", "name")
        return node.text if node else ""

    @property
    def plain(self) -> Plain:
        return self.node.plain


class UnreadableError(Exception):
    """Permanent: the text cannot be read, from `mark` on."""

    def __init__(self, mark: Mark, message: str, rule: str = "yaml") -> None:
        super().__init__(message)
        self.mark, self.rule = mark, rule


def read(text: str, source: str = "<text>") -> tuple[list[Document], list[Problem]]:
    """The documents of a text, including entries of root lists. Documents before an error are kept."""
    if len(text.encode("utf-8", "replace")) > MAX_BYTES:
        message = f"{source} is larger than {MAX_BYTES // 1024} KiB: split it into several files"
        return [], [Problem(source, Mark(1, 1), "error", "size", "", message)]
    documents: list[Document] = []
    lines = LINE.findall(text)
    try:
        for node in _roots(text):
            documents += _documents(node, lines, source)
    except UnreadableError as error:
        return documents, [Problem(source, error.mark, "error", error.rule, "", str(error))]
    return documents, []


def _first_value(text: str) -> Plain:
    """The first value of a text. Raises UnreadableError."""
    return next(iter(_roots(text)), Node(None, Mark(1, 1))).plain


def _documents(root: Node, lines: Sequence[str], source: str) -> Iterator[Document]:
    if root.value is None:
        return
    if root.items:
        for number, node in enumerate(root.items):
            following = root.items[number + 1] if number + 1 < len(root.items) else None
            yield Document(source, node, _kept(_entry(node, following, root, lines), node))
    else:
        start, end = _region(root.mark.line, lines)
        yield Document(source, root, _kept("".join(lines[start:end]), root))


def parted(text: str, group_of: Callable[["Document"], str], usual: str) -> dict[str, str]:
    """The text of each group of documents, with empty lines where those of others are, so that positions stay. What cannot be read is in
    the group `usual`.
    """
    documents, problems = read(text)
    groups = {group_of(document) for document in documents} or {usual}
    if problems or len(groups) == 1:
        return {usual if problems else groups.pop(): text}
    lines = LINE.findall(text)
    parts = {group: ["\n" if SEPARATOR.match(line) is None else line for line in lines] for group in groups}
    for document in documents:
        start, end = _region(document.node.mark.line, lines)
        parts[group_of(document)][start:end] = lines[start:end]
    return {group: "".join(part) for group, part in parts.items()}


def _region(line: int, lines: Sequence[str]) -> tuple[int, int]:
    """The lines of the document around a line (from 1), without separators. YAML content never begins a line with one."""
    start = line - 1
    if SEPARATOR.match(lines[start]):  # such as `--- {kind: SLO}`
        return start, start + 1
    while start > 0 and not SEPARATOR.match(lines[start - 1]) and not lines[start - 1].startswith("%"):
        start -= 1
    end = line
    while end < len(lines) and not SEPARATOR.match(lines[end]):
        end += 1
    return start, end


def _entry(node: Node, following: Node | None, root: Node, lines: Sequence[str]) -> str:
    """An entry of a list with the comments above it, without its indentation."""
    indent = node.mark.column - 1
    first, last = _with_comments(node.mark.line - 1, lines), _region(root.mark.line, lines)[1]
    if following is not None:
        last = _with_comments(following.mark.line - 1, lines)
    kept = []
    for number in range(first, last):
        line = lines[number]
        if number == node.mark.line - 1:
            line = line[indent:]
        elif line[:indent].strip() == "":
            line = line[indent:] if line.strip() else line.lstrip(" ")
        else:
            line = line.lstrip(" ")
        kept.append(line)
    return "".join(kept)


def _with_comments(line: int, lines: Sequence[str]) -> int:
    while line > 0 and lines[line - 1].lstrip().startswith("#"):
        line -= 1
    return line


def _kept(text: str, node: Node) -> str:
    """The text, if it has the same value by itself; else the value rewritten, because an alias lost its anchor."""
    try:
        same = _first_value(text) == node.plain
    except UnreadableError:
        same = False
    return text if same else write_yaml(node.plain)


def _roots(text: str) -> Iterator[Node]:
    events: Any = None
    try:
        events = yaml.parse(text, Loader=LOADER)
        anchors: dict[str, Node] = {}
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                anchors = {}
                yield _node(next(events), events, anchors, 0)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = Mark(mark.line + 1, mark.column + 1) if mark else Mark(1, 1)
        raise UnreadableError(at, f"not YAML: {error.problem or error.context}") from None
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        at = Mark(before.count("\n") + 1, len(before) - before.rfind("\n"))
        raise UnreadableError(at, f"not YAML: {error.reason}") from None


def _node(event: Any, events: Iterator[Any], anchors: dict[str, Node], depth: int) -> Node:
    mark = Mark(event.start_mark.line + 1, event.start_mark.column + 1)
    if depth > MAX_DEPTH:
        raise UnreadableError(mark, f"nested more than {MAX_DEPTH} deep")
    if isinstance(event, yaml.AliasEvent):
        if event.anchor not in anchors:
            raise UnreadableError(
                mark, f"alias *{event.anchor} has no anchor before it: write &{event.anchor} at the value it refers to"
            )
        target = anchors[event.anchor]
        return Node(target.value, mark, target.keys, target.size)
    if event.tag not in (None, "!", *(TAGS if isinstance(event, yaml.ScalarEvent) else TAGS_OF_NODES)):
        raise UnreadableError(mark, f"tag {shown(event.tag)} is not known: leave it out")
    if isinstance(event, yaml.ScalarEvent):
        node = Node(_scalar(event, mark), mark)
    elif isinstance(event, yaml.SequenceStartEvent):
        node = _sequence(mark, events, anchors, depth)
    else:
        node = _mapping(mark, events, anchors, depth)
    if node.size > MAX_NODES:
        raise UnreadableError(mark, f"more than {MAX_NODES} values: split it into several files")
    if event.anchor:
        anchors[event.anchor] = node
    return node


def _sequence(mark: Mark, events: Iterator[Any], anchors: dict[str, Node], depth: int) -> Node:
    items, size = [], 1
    for event in events:
        if isinstance(event, yaml.SequenceEndEvent):
            break
        items.append(_node(event, events, anchors, depth + 1))
        size += items[-1].size
        _bound(size, mark)
    return Node(items, mark, size=size)


def _mapping(mark: Mark, events: Iterator[Any], anchors: dict[str, Node], depth: int) -> Node:
    fields: dict[str, Node] = {}
    keys: dict[str, Mark] = {}
    size = 1
    for event in events:
        if isinstance(event, yaml.MappingEndEvent):
            break
        at = Mark(event.start_mark.line + 1, event.start_mark.column + 1)
        if not isinstance(event, yaml.ScalarEvent):
            raise UnreadableError(at, "a key is a list or a mapping: use text")
        key = event.value
        if key in fields:
            raise UnreadableError(
                at, f"{shown(key)} is given twice, first on line {keys[key].line}: keep one", "duplicate-key"
            )
        fields[key], keys[key] = _node(next(events), events, anchors, depth + 1), at
        size += fields[key].size
        _bound(size, mark)
    return Node(fields, mark, keys, size)


def _bound(size: int, mark: Mark) -> None:
    if size > MAX_NODES:
        raise UnreadableError(mark, f"more than {MAX_NODES} values: split it into several files")


def _scalar(event: Any, mark: Mark) -> Scalar:
    text: str = event.value
    if event.tag is not None and event.tag != "!":
        if TAGS[event.tag] is str:
            return text
    elif not event.implicit[0]:  # quoted, or a block
        return text
    return plain_scalar(text, mark)


def plain_scalar(text: str, mark: Mark) -> Scalar:
    """The value of an unquoted scalar. Raises UnreadableError for numbers that are not finite."""
    if text in NULLS:
        return None
    if text in BOOLEANS:
        return BOOLEANS[text]
    if INTEGER.fullmatch(text):
        return int(text)
    if OTHER_BASES.fullmatch(text):
        return int(text, 0)
    if NOT_FINITE.fullmatch(text) or (FLOAT.fullmatch(text) and not math.isfinite(float(text))):
        raise UnreadableError(mark, f"{shown(text)} is not a finite number")
    return float(text) if FLOAT.fullmatch(text) else text
