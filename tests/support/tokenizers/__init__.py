"""Folders of tokenizers in the form of five public families, trained on the spot."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

_TEMPLATES = Path(__file__).parent / "templates"
CORPUS = [
    "A weir measures the flow of a river and holds its level. " * 3,
    "The quick brown fox jumps over the lazy dog; {'x': [1, 2, 3]} <b>bold</b> 0123456789 \n\n    return value\n",
]


class Family(NamedTuple):
    """`special` and `added` are tokens of `tokenizer.json`, the latter without its mark as special."""

    special: tuple[str, ...]
    added: tuple[str, ...]
    bos: str
    eos: str
    train: Callable[[], Tokenizer]
    adds_bos: bool = False


def _byte_level() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        CORPUS, trainers.BpeTrainer(vocab_size=600, initial_alphabet=alphabet, show_progress=False)
    )
    return tokenizer


def _sentence_pieces() -> Tokenizer:
    """As converted SentencePiece vocabularies: spaces are U+2581, unknown characters are bytes."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    tokenizer.train_from_iterator(
        CORPUS, trainers.BpeTrainer(vocab_size=800, special_tokens=["<unk>", *bytes_], show_progress=False)
    )
    content = json.loads(tokenizer.to_str())
    content["added_tokens"] = content["added_tokens"][:1]  # bytes are vocabulary, which text cannot name
    return Tokenizer.from_str(json.dumps(content))


def _compatible() -> Tokenizer:
    """Its normalizer makes usual characters of full-width ones, before it looks for added tokens."""
    tokenizer = _byte_level()
    tokenizer.normalizer = normalizers.NFKC()
    return tokenizer


FAMILIES = {
    "chatml": Family(
        ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>"),
        ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>", "<|fim_prefix|>"),
        "",
        "<|im_end|>",
        _byte_level,
    ),
    "llama3": Family(
        (
            *(
                "<|begin_of_text|>",
                "<|end_of_text|>",
                "<|start_header_id|>",
                "<|end_header_id|>",
                "<|eot_id|>",
                "<|eom_id|>",
            ),
            *("<|python_tag|>", *(f"<|reserved_special_token_{number}|>" for number in range(240))),
        ),
        (),
        "<|begin_of_text|>",
        "<|eot_id|>",
        _byte_level,
        adds_bos=True,
    ),
    "mistral": Family(
        (
            *("<s>", "</s>", "[INST]", "[/INST]", "[TOOL_CALLS]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"),
            *("[TOOL_RESULTS]", "[/TOOL_RESULTS]"),
        ),
        (),
        "<s>",
        "</s>",
        _sentence_pieces,
        adds_bos=True,
    ),
    "gemma": Family(
        ("<pad>", "<eos>", "<bos>"),
        ("<start_of_turn>", "<end_of_turn>", "<start_of_image>", "<b>", "</b>", "\n\n"),
        "<bos>",
        "<eos>",
        _sentence_pieces,
    ),
    "deepseek": Family(
        ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"),
        (
            *("<｜User｜>", "<｜Assistant｜>", "<think>", "</think>", "<｜fim▁hole｜>", "<｜tool▁sep｜>"),
            *("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"),
            *("<｜tool▁outputs▁begin｜>", "<｜tool▁outputs▁end｜>", "<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>"),
        ),
        "<｜begin▁of▁sentence｜>",
        "<｜end▁of▁sentence｜>",
        _compatible,
    ),
}


def write_folder(folder: Path, name: str, template: str | None = None, config: dict[str, Any] | None = None) -> Path:
    """Write the family's files, with `template` in the place of its own, and further entries of `tokenizer_config.json`."""
    family = FAMILIES[name]
    tokenizer = family.train()
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in family.special])
    tokenizer.add_tokens(
        [AddedToken(text, special=False, normalized=text.isascii() and text[0] == "<") for text in family.added]
    )
    if family.adds_bos:
        number = tokenizer.token_to_id(family.bos)
        assert number is not None
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{family.bos} $A", pair=f"{family.bos} $A $B", special_tokens=[(family.bos, number)]
        )
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    entries = {"bos_token": family.bos or None, "eos_token": {"content": family.eos}} | (config or {})
    (folder / "tokenizer_config.json").write_text(json.dumps(entries))
    source = template if template is not None else (_TEMPLATES / f"{name}.jinja").read_text()
    (folder / "chat_template.jinja").write_text(source)
    return folder
