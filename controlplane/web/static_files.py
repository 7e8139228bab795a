"""Stores collected static files under hashed names, compressed with gzip and brotli."""

from typing import Any

import brotli
from servestatic.compress import Compressor
from servestatic.storage import CompressedManifestStaticFilesStorage

BROTLI_QUALITY = 9
"""Of 11. Level 11 takes 20 times as long for 8 % less (1.5 MB of plotly.js: 3.8 s for 410 kB, 0.2 s for 444 kB)."""


class QuickCompressor(Compressor):  # type: ignore[misc]
    @staticmethod
    def compress_brotli(data: bytes) -> bytes:
        compressed: bytes = brotli.compress(data, quality=BROTLI_QUALITY)
        return compressed


class StaticFiles(CompressedManifestStaticFilesStorage):  # type: ignore[misc]
    def create_compressor(self, **options: Any) -> QuickCompressor:
        return QuickCompressor(**options)
