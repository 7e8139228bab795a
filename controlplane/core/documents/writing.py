"""Writes plain values as YAML, in the order of their keys."""

import re
from collections.abc import Iterable
from typing import Any

import yaml

AS_NUMBER = re.compile(r"(?:[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|0o[0-7]+|0x[0-9a-fA-F]+)\Z")

OTHER_BREAKS = re.compile("[\\r\\x85\\u2028\\u2029\\ufeff]")
"""Characters that YAML reads as line breaks or drops, unless they are escaped."""


class Dumper(yaml.SafeDumper):
    """Indents lists, writes several lines as a block, and quotes text that any YAML version reads as something else."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = '"' if OTHER_BREAKS.search(value) else "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


def _number(dumper: yaml.SafeDumper, value: float) -> yaml.ScalarNode:
    """The shortest text of the number; YAML 1.1 needs a point before an exponent."""
    if value.is_integer() and abs(value) < 1e15:
        return dumper.represent_scalar("tag:yaml.org,2002:int", str(int(value)))
    digits, exponent, power = repr(value).partition("e")
    text = digits + (".0" if exponent and "." not in digits else "") + exponent + power
    return dumper.represent_scalar("tag:yaml.org,2002:float", text)


Dumper.add_representer(str, _text)
Dumper.add_representer(float, _number)
Dumper.add_implicit_resolver("tag:yaml.org,2002:float", AS_NUMBER, list("-+.0123456789"))


def write_yaml(value: object) -> str:
    return yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=120, default_flow_style=False)


def join_documents(texts: Iterable[str]) -> str:
    """Documents of one file."""
    return "---\n".join(text if text.endswith("\n") else text + "\n" for text in texts)
