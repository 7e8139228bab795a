"""The folder of a model's tokenizer, as Hugging Face lays it out."""

from pathlib import Path

TOKENIZER, TEKKEN = "tokenizer.json", "tekken.json"
_FILES = (
    TOKENIZER,
    TEKKEN,
    "tokenizer_config.json",
    "chat_template.jinja",
    "chat_template.json",
    "additional_chat_templates/tool_use.jinja",
)
Signature = tuple[tuple[str, int, int, int], ...]


def signature(folder: Path) -> Signature:
    """What changes with the folder's files; empty where there are none."""
    seen = []
    for name in _FILES:
        try:
            stat = (folder / name).stat()
        except OSError:
            continue
        seen.append((name, stat.st_mtime_ns, stat.st_ino, stat.st_size))
    return tuple(seen)
