"""Writes protobuf's text format, of which Triton's `config.pbtxt` is made (protobuf.dev/reference/protobuf/textformat-spec)."""

from collections.abc import Mapping, Sequence


class Literal(str):
    """The name of an enum's value, which is written without quotes."""

    __slots__ = ()


def text(message: Mapping[str, object], indent: str = "") -> str:
    """The fields in their order. A list is a repeated field; an empty one is left out."""
    lines = []
    for name, value in message.items():
        for each in value if isinstance(value, Sequence) and not isinstance(value, str) else [value]:
            if isinstance(each, Mapping):
                lines.append(f"{indent}{name} {{\n{text(each, indent + '  ')}{indent}}}\n")
            else:
                lines.append(f"{indent}{name}: {_scalar(each)}\n")
    return "".join(lines)


def _scalar(value: object) -> str:
    if isinstance(value, Literal):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    return '"' + str(value).translate(_ESCAPES) + '"'


_ESCAPES = {ord("\\"): "\\\\", ord('"'): '\\"', ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}
