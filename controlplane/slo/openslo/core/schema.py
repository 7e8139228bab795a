"""Checks parts of OpenSLO documents against `schema.yaml`. Every fault has the place of what is wrong, and a remedy."""

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from jsonschema import Draft202012Validator, FormatChecker, ValidationError
from jsonschema.validators import extend

from controlplane.core.documents.node import Node
from controlplane.core.documents.problem import Mark, dotted, shown
from controlplane.core.documents.reading import LOADER
from controlplane.slo.core.objective import DIMENSIONS
from controlplane.slo.core.period import zone
from controlplane.slo.openslo.core import durations

START_TIME = "%Y-%m-%d %H:%M:%S"
DEFINITIONS: dict[str, Any] = yaml.load(Path(__file__).with_name("schema.yaml").read_text(), LOADER)  # noqa: S506
DEFINITIONS["scope"]["properties"] = {dimension: {"$ref": "#/$defs/anyText"} for dimension in DIMENSIONS}
FORMATS = FormatChecker(formats=())


class Fault(NamedTuple):
    mark: Mark
    rule: str
    path: str
    message: str


def _is_duration(value: object) -> bool:
    return bool(durations.parts(value if isinstance(value, str) else ""))


def _is_time(value: object) -> bool:
    return bool(datetime.strptime(value if isinstance(value, str) else "", START_TIME))


def _is_time_zone(value: object) -> bool:
    return bool(zone(value if isinstance(value, str) else ""))


def suggest(value: object, choices: Iterable[str]) -> str:
    """The remedy for a value that is none of the choices."""
    near = difflib.get_close_matches(value, choices, 1) if isinstance(value, str) else []
    return f"did you mean {near[0]}" if near else f"use {', '.join(choices)}"


for _name, _check in (("duration", _is_duration), ("time", _is_time), ("time-zone", _is_time_zone)):
    FORMATS.checks(_name, ValueError)(_check)

Keyword = Iterator[ValidationError]


def _properties(validator: Any, properties: Mapping[str, Any], value: Any, schema: Any) -> Keyword:
    for name, part in properties.items() if isinstance(value, dict) else ():
        if value.get(name) is not None:
            yield from validator.descend(value[name], part, path=name, schema_path=name)


def _required(validator: Any, names: Sequence[str], value: Any, schema: Any) -> Keyword:
    for name in names if isinstance(value, dict) else ():
        if value.get(name) is None:
            remedy = schema.get("properties", {}).get(name, {}).get("missing", "add it")
            yield ValidationError(f"is {'empty' if name in value else 'missing'}: {remedy}", path=[name])


def _dependent_required(validator: Any, needs: Mapping[str, Sequence[str]], value: Any, schema: Any) -> Keyword:
    for name, needed in needs.items() if isinstance(value, dict) else ():
        if name in value:
            yield from _required(validator, needed, value, schema)


def _additional_properties(validator: Any, extra: Any, value: Any, schema: Any) -> Keyword:
    known = schema.get("properties", {})
    for name in value if isinstance(value, dict) else ():
        if name not in known and extra is False:
            yield ValidationError(f"is not a field: {suggest(name, known)}", path=[name])
        elif name not in known:
            yield from validator.descend(value[name], extra, path=name)


def _property_names(validator: Any, names: Any, value: Any, schema: Any) -> Keyword:
    for name in value if isinstance(value, dict) else ():
        for error in validator.descend(name, names):
            yield ValidationError(error.schema["remedy"], path=[name])


def _at_least_one(validator: Any, names: Sequence[str], value: Any, schema: Any) -> Keyword:
    if isinstance(value, dict) and not any(name in value for name in names):
        yield ValidationError(f"has none of {', '.join(names)}: give one")


def _at_most_one(validator: Any, names: Sequence[str], value: Any, schema: Any) -> Keyword:
    given = [name for name in names if isinstance(value, dict) and name in value]
    if len(given) > 1:
        yield ValidationError(f"has {' and '.join(given)}: keep one", path=[given[1]])


def _forbidden(validator: Any, names: Mapping[str, str], value: Any, schema: Any) -> Keyword:
    for name, why in names.items():
        if isinstance(value, dict) and name in value:
            yield ValidationError(why, path=[name])


Checker = extend(
    Draft202012Validator,
    {
        "properties": _properties,
        "required": _required,
        "dependentRequired": _dependent_required,
        "additionalProperties": _additional_properties,
        "propertyNames": _property_names,
        "atLeastOne": _at_least_one,
        "atMostOne": _at_most_one,
        "forbidden": _forbidden,
    },
)
CHECKERS = {
    name: Checker({"$ref": f"#/$defs/{name}", "$defs": DEFINITIONS}, format_checker=FORMATS) for name in DEFINITIONS
}


def fits(definition: str, node: Node) -> bool:
    return bool(CHECKERS[definition].is_valid(node.plain))


def faults_of(definition: str, node: Node, path: str = "") -> Iterator[Fault]:
    """What the definition refuses. `path` is that of the node in its document."""
    for error in CHECKERS[definition].iter_errors(node.plain):
        if error.validator != "pattern" or error.instance:  # that a text is empty is said already
            yield _fault(error, node, path)


def _fault(error: ValidationError, node: Node, prefix: str) -> Fault:
    parts = list(error.absolute_path)
    path = dotted(parts, prefix)
    if error.validator in KEYED:
        *above, name = parts
        whole = dotted(above, prefix) or "the document"
        mark = (node.at(*above) or node).of_key(str(name))
        rule, words = KEYED[error.validator]
        return Fault(mark, rule, path, words.format(path=path, whole=whole, name=shown(name), message=error.message))
    part = node.at(*parts) or node
    if error.validator == "atLeastOne":
        return Fault(part.mark, "one-of-fields", path, f"{path or 'the document'} {error.message}")
    if error.validator == "maxItems":
        return Fault(part.items[error.validator_value].mark, "count", path, f"{path} {_words(error)}")
    rule = RULES.get(str(error.validator), "type")
    if rule == "format":
        rule = error.schema["format"]
    return Fault(part.mark, rule, path, f"{path or 'the document'}={shown(error.instance)} {_words(error)}")


KEYED = {
    "required": ("required", "{path} {message}"),
    "dependentRequired": ("required", "{path} {message}"),
    "additionalProperties": ("unknown-field", "{path} {message}"),
    "forbidden": ("one-of-fields", "{path} {message}"),
    "atMostOne": ("one-of-fields", "{whole} {message}"),
    "propertyNames": ("key", "{whole} has the key {name}: {message}"),
}
"""Keywords whose faults stand at a field's name, or where it is absent at its mapping: the linter's rule, and the message."""
RULES = {
    "enum": "one-of", "minItems": "count", "minLength": "required", "maxLength": "length", "minProperties": "required",
    "pattern": "pattern", "format": "format",
    "minimum": "range", "exclusiveMinimum": "range", "maximum": "range", "exclusiveMaximum": "range",
}  # fmt: skip
"""The linter's rule by the keyword of JSON Schema; `type` where there is none."""


def _words(error: ValidationError) -> str:
    """What is wrong with a value, and the remedy."""
    schema, limit, value = error.schema, error.validator_value, error.instance
    remedy = f": {schema['remedy']}" if isinstance(schema, dict) and "remedy" in schema else ""
    match error.validator:
        case "type":
            return _type_words(schema, value, remedy)
        case "enum":
            return f"is not known: {suggest(value, limit)}"
        case "format":
            return remedy.removeprefix(": ") or str(error.cause)
        case "pattern":
            return remedy.removeprefix(": ")
        case "minLength":
            return "is empty: fill it in, or leave it out where it is optional"
        case "maxLength":
            return f"has {len(value)} characters: use at most {limit}"
        case "minItems":
            return f"has {len(value)} entries{remedy or f': give at least {limit}'}"
        case "maxItems":
            return f"has {len(value)} entries{remedy or f': give at most {limit}'}"
        case "minProperties":
            return "must be a mapping with at least one field"
        case "minimum":
            return f"is below {limit:g}{remedy}"
        case "maximum":
            return f"is above {limit:g}{remedy}"
        case "exclusiveMinimum":
            return f"is not above {limit:g}{remedy}"
        case "exclusiveMaximum":
            return f"is not below {limit:g}{remedy}"
    return str(error.message)


def _type_words(schema: Mapping[str, Any], value: object, remedy: str) -> str:
    match schema["type"]:
        case "object":
            fields = ", ".join(schema.get("properties", ()))
            return f"must be a mapping{f' with {fields}' if fields else ' with at least one field' if 'minProperties' in schema else ''}"
        case "array":
            return "must be a list: begin each entry with '- '"
        case "boolean":
            return "must be true or false, without quotes"
        case "number":
            return f"must be a number{remedy}"
    if isinstance(value, bool | int | float):
        return f"must be text: put it in quotes, '{shown(value)}'"
    return "must be text: write one line of text"
