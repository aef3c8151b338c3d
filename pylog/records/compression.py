"""The codecs of a batch's records by Kafka's names, ids and levels, with a cap on what comes out.

The layout of each format, and the forms that Kafka's clients write, are in `gzip_codec`,
`snappy_codec`, `lz4_codec` and `zstd_codec`; this module picks one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from pylog.errors import InvalidConfig, UnsupportedCompressionType
from pylog.records import gzip_codec, lz4_codec, snappy_codec, zstd_codec
from pylog.records.batch import Buffer, CompressionType

DECOMPRESSED_BYTES_MAX: Final = 256 * 1024 * 1024
"""The limit that a reader accepts of one batch unless told otherwise: far above any sane batch
(Kafka's default limit is 1 MiB compressed), far below what would hurt."""

CODEC_NAMES: Final = tuple(codec.name.lower() for codec in CompressionType)
"""`none, gzip, snappy, lz4, zstd`, as `compression.type` of a producer takes them."""

LEVELS: Final = {
    CompressionType.GZIP: (gzip_codec.LEVEL_MIN, gzip_codec.LEVEL_MAX, gzip_codec.LEVEL_DEFAULT),
    CompressionType.LZ4: (lz4_codec.LEVEL_MIN, lz4_codec.LEVEL_MAX, lz4_codec.LEVEL_DEFAULT),
    CompressionType.ZSTD: (zstd_codec.LEVEL_MIN, zstd_codec.LEVEL_MAX, zstd_codec.LEVEL_DEFAULT),
}
"""(lowest, highest, default) of `compression.gzip.level`, `.lz4.level`, `.zstd.level` (KIP-390).
gzip's default, -1, is zlib's own choice; 0 is not a level."""

_CODECS: Final = {name: CompressionType(number) for number, name in enumerate(CODEC_NAMES)}
_IDS: Final = frozenset(map(int, CompressionType))
_USE: Final = f"use {', '.join(CODEC_NAMES[:-1])} or {CODEC_NAMES[-1]}"

_COMPRESS: Final[dict[CompressionType, Callable[[Buffer, int], Buffer]]] = {
    CompressionType.GZIP: gzip_codec.compress,
    CompressionType.SNAPPY: lambda records, _level: snappy_codec.compress(records),
    CompressionType.LZ4: lz4_codec.compress,
    CompressionType.ZSTD: zstd_codec.compress,
}
_DECOMPRESS: Final[dict[CompressionType, Callable[[Buffer, int], Buffer]]] = {
    CompressionType.GZIP: gzip_codec.decompress,
    CompressionType.SNAPPY: snappy_codec.decompress,
    CompressionType.LZ4: lz4_codec.decompress,
    CompressionType.ZSTD: zstd_codec.decompress,
}


class Compression(NamedTuple):
    """A codec and how hard it tries; `level` None is the codec's default."""

    codec: CompressionType
    level: int | None = None

    @classmethod
    def of(cls, chosen: str | Compression, level: int | None = None) -> Compression:
        """The codec of that name at that level; what is a `Compression` already stays as it is.

        UnsupportedCompressionType for a name that Kafka does not have, InvalidConfig for a level
        that the codec does not have. Codecs without levels (none, snappy) take none.
        """
        if isinstance(chosen, Compression):
            return chosen
        codec = codec_from_name(chosen)
        if level is not None:
            _check_level(codec, level)
        return cls(codec, level)


def _check_level(codec: CompressionType, level: int) -> None:
    name = codec.name.lower()
    if codec not in LEVELS:
        raise InvalidConfig(f"compression type {name} has no levels; {level} was asked for")
    low, high, default = LEVELS[codec]
    if not (low <= level <= high or level == default):
        also = "" if low <= default <= high else f", or {default}"
        raise InvalidConfig(
            f"compression.{name}.level={level}: it must be from {low} to {high}{also}"
        )


def codec_from_name(name: str) -> CompressionType:
    """The codec of that name; UnsupportedCompressionType for one that Kafka does not have."""
    codec = _CODECS.get(name)
    if codec is None:
        raise UnsupportedCompressionType(f"compression type {name!r} is not known; {_USE}")
    return codec


def check_codec(codec: int) -> CompressionType:
    """The codec with that id; UnsupportedCompressionType for 5 to 7, which mean nothing."""
    if codec not in _IDS:
        raise UnsupportedCompressionType(f"compression codec {codec} is not known; {_USE}")
    return CompressionType(codec)


def compress(chosen: CompressionType | Compression, records: Buffer) -> Buffer:
    """`records` in that codec; the very same object for none."""
    codec, level = chosen if isinstance(chosen, Compression) else (chosen, None)
    if codec is CompressionType.NONE:
        return records
    if level is None:
        level = LEVELS[codec][2] if codec in LEVELS else 0
    return _COMPRESS[codec](records, level)


def decompress(codec: int, data: Buffer, *, max_bytes: int) -> Buffer:
    """The records behind `data`, at most `max_bytes` of them; the very same object for none.

    Raises InvalidRecord for a malformed, cut or over-long stream and as soon as the output would
    pass `max_bytes` (a decompression bomb costs no more than that), UnsupportedCompressionType for
    other codecs.
    """
    known = check_codec(codec)
    if known is CompressionType.NONE:
        return data
    return _DECOMPRESS[known](data, max_bytes)
