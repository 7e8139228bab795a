"""Checks from which `kinds` builds OpenSLO's rules. A check is a function from a node to its faults."""

import difflib
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from controlplane.core.documents.node import Node
from controlplane.core.documents.problem import Mark, shown
from controlplane.slo.openslo.core import durations


class Fault(NamedTuple):
    mark: Mark
    rule: str
    path: str
    message: str


Check = Callable[[Node, str], Iterator[Fault]]
Rule = Check
DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class Field(NamedTuple):
    check: Check
    required: bool = False
    remedy: str = "add it"


def required(check: Check, remedy: str = "add it") -> Field:
    return Field(check, True, remedy)


def optional(check: Check) -> Field:
    return Field(check)


def mapping(fields: Mapping[str, Field], *rules: Rule) -> Check:
    """A mapping with exactly these fields; `rules` check the whole mapping."""

    def check(node: Node, path: str) -> Iterator[Fault]:
        if not isinstance(node.value, Mapping):
            yield _of(node, path, "type", f"must be a mapping with {', '.join(fields)}")
            return
        for name in node.value:
            if name not in fields:
                near = difflib.get_close_matches(name, fields, 1)
                remedy = f"did you mean {near[0]}" if near else f"use {', '.join(fields)}"
                yield Fault(
                    node.keys[name], "unknown-field", under(path, name), f"{under(path, name)} is not a field: {remedy}"
                )
        for name, field in fields.items():
            child = node.value.get(name)
            if child is not None and child.value is not None:
                yield from field.check(child, under(path, name))
            elif field.required:
                what = "is missing" if child is None else "is empty"
                yield Fault(
                    node.of_key(name), "required", under(path, name), f"{under(path, name)} {what}: {field.remedy}"
                )
        for rule in rules:
            yield from rule(node, path)

    return check


def table(key: re.Pattern[str], key_remedy: str, value: Check) -> Check:
    """A mapping with any keys that match `key`."""

    def check(node: Node, path: str) -> Iterator[Fault]:
        if not isinstance(node.value, Mapping):
            yield _of(node, path, "type", "must be a mapping")
            return
        for name, child in node.value.items():
            if not key.fullmatch(name):
                yield Fault(
                    node.keys[name], "key", under(path, name), f"{path} has the key {shown(name)}: {key_remedy}"
                )
            yield from value(child, under(path, name))

    return check


def each(check_one: Check, least: int = 0, most: int | None = None, remedy: str = "") -> Check:
    """A list with `least` to `most` entries."""

    def check(node: Node, path: str) -> Iterator[Fault]:
        if not isinstance(node.value, list):
            yield _of(node, path, "type", "must be a list: begin each entry with '- '")
            return
        if len(node.value) < least:
            yield _of(node, path, "count", f"has {len(node.value)} entries: {remedy or f'give at least {least}'}")
        if most is not None and len(node.value) > most:
            message = f"{path} has {len(node.value)} entries: {remedy or f'give at most {most}'}"
            yield Fault(node.value[most].mark, "count", path, message)
        for number, child in enumerate(node.value):
            yield from check_one(child, f"{path}[{number}]")

    return check


def text(most: int | None = None, pattern: re.Pattern[str] | None = None, remedy: str = "") -> Check:
    def check(node: Node, path: str) -> Iterator[Fault]:
        if not isinstance(node.value, str):
            yield _of(node, path, "type", f"must be text: {_quote(node)}")
        elif not node.value:
            yield _of(node, path, "required", "is empty: fill it in, or leave it out where it is optional")
        elif most is not None and len(node.value) > most:
            yield _of(node, path, "length", f"has {len(node.value)} characters: use at most {most}")
        elif pattern and not pattern.fullmatch(node.value):
            yield _of(node, path, "pattern", remedy)

    return check


def number(
    *,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
    remedy: str = "",
) -> Check:
    """A finite number in bounds."""

    def check(node: Node, path: str) -> Iterator[Fault]:
        value = node.value
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            yield _of(node, path, "type", f"must be a number{': ' + remedy if remedy else ''}")
            return
        for wrong, words in (
            (above is not None and not value > above, f"is not above {above:g}" if above is not None else ""),
            (least is not None and not value >= least, f"is below {least:g}" if least is not None else ""),
            (below is not None and not value < below, f"is not below {below:g}" if below is not None else ""),
            (most is not None and not value <= most, f"is above {most:g}" if most is not None else ""),
        ):
            if wrong:
                yield _of(node, path, "range", f"{words}{': ' + remedy if remedy else ''}")
                return

    return check


def boolean(node: Node, path: str) -> Iterator[Fault]:
    if not isinstance(node.value, bool):
        yield _of(node, path, "type", "must be true or false, without quotes")


def one_of(*values: str) -> Check:
    def check(node: Node, path: str) -> Iterator[Fault]:
        if node.value not in values:
            near = difflib.get_close_matches(node.text, values, 1)
            yield _of(
                node,
                path,
                "one-of",
                f"is not known: {'did you mean ' + near[0] if near else 'use ' + ', '.join(values)}",
            )

    return check


def duration(node: Node, path: str) -> Iterator[Fault]:
    try:
        durations.parts(node.text)
    except ValueError as error:
        yield _of(node, path, "duration", str(error))


def anything(node: Node, path: str) -> Iterator[Fault]:
    yield from ()


def filled(node: Node, path: str) -> Iterator[Fault]:
    """A mapping with any fields, but not an empty one."""
    if not node.mapping:
        yield _of(node, path, "required", "must be a mapping with at least one field")


def exactly_one(*names: str, rule: str = "one-of-fields") -> Rule:
    def check(node: Node, path: str) -> Iterator[Fault]:
        yield from _several(node, path, names, rule)
        if not any(name in node.mapping for name in names):
            where = path or "the document"
            yield Fault(node.mark, rule, path, f"{where} has none of {', '.join(names)}: give one")

    return check


def at_most_one(*names: str, rule: str = "one-of-fields") -> Rule:
    def check(node: Node, path: str) -> Iterator[Fault]:
        yield from _several(node, path, names, rule)

    return check


def _several(node: Node, path: str, names: tuple[str, ...], rule: str) -> Iterator[Fault]:
    given = [name for name in names if name in node.mapping]
    if len(given) > 1:
        yield Fault(
            node.of_key(given[1]),
            rule,
            under(path, given[1]),
            f"{path or 'the document'} has {' and '.join(given)}: keep one",
        )


def either(first: Check, second: Check) -> Check:
    """Accepts what `first` or `second` accepts; the faults are those of `second`."""

    def check(node: Node, path: str) -> Iterator[Fault]:
        if any(first(node, path)):
            yield from second(node, path)

    return check


def under(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _of(node: Node, path: str, rule: str, words: str) -> Fault:
    return Fault(node.mark, rule, path, f"{path}={shown(node.plain)} {words}")


def _quote(node: Node) -> str:
    if isinstance(node.value, bool | int | float):
        return f"put it in quotes, '{shown(node.value)}'"
    return "write one line of text"
