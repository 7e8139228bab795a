"""The process in which a model's tokenizer and chat template work: `python -m inference.tokenizers.worker FOLDER`.

Such files come from outside. A template can take memory without limit (`{% set s = s ~ s %}` doubles a text in six
instructions), and a tokenizer's expression time. Here that ends this process, and harms no other model.
It reads jobs from its standard input and writes their results, in the same order (`inference/tokenizers/frames.py`).
"""

import resource
import signal
import sys
from pathlib import Path
from typing import BinaryIO

import msgspec

from inference.tokenizers.frames import LENGTH, Job, Loaded, Result, frame

_LOADING_BYTES = 4 << 30  # for the vocabulary: of 256k entries it takes about half a gigabyte
_WORKING_BYTES = 512 << 20  # beyond what it takes once that is loaded
_PAGE_BYTES = resource.getpagesize()


def main(folder: Path, jobs: BinaryIO, results: BinaryIO) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the gateway ends it by closing its input
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would have prompts in it
    _limit_memory(_LOADING_BYTES)
    try:
        from inference.tokenizers.counting import do  # only now that memory is limited
        from inference.tokenizers.model_files import ModelFiles, ModelFilesError

        files = ModelFiles(folder, _limit_work)
    except Exception as error:  # noqa: BLE001  (whatever is wrong, the gateway reports it)
        text = str(error)[:500] or type(error).__name__
        results.write(frame(Loaded(error=text, files=isinstance(error, ModelFilesError))))
        results.flush()
        return
    results.write(frame(Loaded(files.control.texts)))
    results.flush()
    decode = msgspec.msgpack.Decoder(Job).decode
    while len(head := jobs.read(LENGTH.size)) == LENGTH.size:
        raw = jobs.read(LENGTH.unpack(head)[0])
        try:
            result = do(files, decode(raw))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001  (a panic of a tokenizer's Rust code is no Exception)
            result = Result(error=f"the model's tokenizer failed: {type(error).__name__}")
        results.write(frame(result))
        results.flush()


def _limit_work() -> None:
    taken_pages = int(Path("/proc/self/statm").read_text().split()[0])
    _limit_memory(taken_pages * _PAGE_BYTES + _WORKING_BYTES)


def _limit_memory(most_bytes: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    soft = most_bytes if hard == resource.RLIM_INFINITY else min(most_bytes, hard)
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.stdin.buffer, sys.stdout.buffer)
