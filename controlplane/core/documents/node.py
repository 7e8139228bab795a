"""A YAML value whose parts have positions."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from controlplane.core.documents.problem import Mark

Scalar = str | int | float | bool | None
Plain = Scalar | list["Plain"] | dict[str, "Plain"]


@dataclass(frozen=True, slots=True)
class Node:
    """`keys` are the positions of a mapping's keys. `size` counts scalars and containers, aliases at their full size."""

    value: "Scalar | Mapping[str, Node] | Sequence[Node]"
    mark: Mark
    keys: Mapping[str, Mark] = field(default_factory=dict)
    size: int = 1

    @property
    def plain(self) -> Plain:
        """The value without positions, as in JSON; the order of keys is kept."""
        if isinstance(self.value, Mapping):
            return {key: node.plain for key, node in self.value.items()}
        if isinstance(self.value, Sequence) and not isinstance(self.value, str):
            return [node.plain for node in self.value]
        return self.value

    @property
    def plain_mapping(self) -> dict[str, Plain]:
        """As `plain`; empty if it is no mapping."""
        return {key: node.plain for key, node in self.mapping.items()}

    @property
    def mapping(self) -> "Mapping[str, Node]":
        """Its fields; none if it is no mapping."""
        return self.value if isinstance(self.value, Mapping) else {}

    @property
    def items(self) -> "Sequence[Node]":
        """Its entries; none if it is no list."""
        return self.value if isinstance(self.value, Sequence) and not isinstance(self.value, str) else ()

    @property
    def text(self) -> str:
        """Its text; empty if it is something else."""
        return self.value if isinstance(self.value, str) else ""

    def at(self, *path: str | int) -> "Node | None":
        """The part under `path`, or None."""
        part: Node | None = self
        for step in path:
            if part is None:
                return None
            if isinstance(step, str):
                part = part.mapping.get(step)
            elif step < len(part.items):
                part = part.items[step]
            else:
                return None
        return part

    def of_key(self, key: str) -> Mark:
        """The position of a field's key, or of the mapping if the field is absent."""
        return self.keys.get(key, self.mark)

    def nearest(self, path: Sequence[str | int]) -> Mark:
        """The position of the deepest part of `path` that is there; of a field, that of its key."""
        part, mark = self, self.mark
        for step in path:
            below = part.at(step)
            if below is None:
                break
            mark = part.keys.get(step, below.mark) if isinstance(step, str) else below.mark
            part = below
        return mark


def walk(node: Node, path: str = "") -> Iterator[tuple[str, Node]]:
    """Every part with its path, outermost first."""
    yield path, node
    for key, child in node.mapping.items():
        yield from walk(child, f"{path}.{key}" if path else key)
    for number, child in enumerate(node.items):
        yield from walk(child, f"{path}[{number}]")
