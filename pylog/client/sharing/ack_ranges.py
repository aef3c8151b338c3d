"""From single acknowledgements to the ranges of a request, and back. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pylog.client.sharing.messages import GAP, AckRange


def ranges_of(acks: Iterable[tuple[int, int]]) -> tuple[AckRange, ...]:
    """Ranges of neighbours out of (offset, type), in the order of their offsets."""
    ordered = sorted(acks)
    found: list[AckRange] = []
    begin = 0
    for index in range(1, len(ordered) + 1):
        if index < len(ordered) and ordered[index][0] == ordered[index - 1][0] + 1:
            continue
        part = ordered[begin:index]
        found.append(_range(part[0][0], bytes(kind for _, kind in part)))
        begin = index
    return tuple(found)


def ranges_of_one(offsets: Sequence[int], kind: int) -> tuple[AckRange, ...]:
    """The same for ascending offsets that all get the same acknowledgement."""
    if offsets and offsets[-1] - offsets[0] == len(offsets) - 1:
        return (AckRange(offsets[0], offsets[-1], bytes((kind,))),)
    return ranges_of((offset, kind) for offset in offsets)


def merged(ranges: Iterable[AckRange]) -> tuple[AckRange, ...]:
    """Ranges in the order of their offsets, neighbours as one. They have no offset in common."""
    found: list[AckRange] = []
    for each in sorted(ranges):
        last = found[-1] if found else None
        if last is None or last.last_offset + 1 != each.first_offset:
            found.append(each)
        elif last.types == each.types and len(last.types) == 1:
            found[-1] = AckRange(last.first_offset, each.last_offset, last.types)
        else:
            types = _one_each(last) + _one_each(each)
            found[-1] = AckRange(last.first_offset, each.last_offset, types)
    return tuple(found)


def offsets_of(ranges: Iterable[AckRange]) -> Iterator[tuple[int, int]]:
    """(offset, type) of each record; offsets without one are left out."""
    for each in ranges:
        for offset, kind in zip(
            range(each.first_offset, each.last_offset + 1), _one_each(each), strict=True
        ):
            if kind != GAP:
                yield offset, kind


def _range(first: int, types: bytes) -> AckRange:
    same = types.count(types[0]) == len(types)
    return AckRange(first, first + len(types) - 1, types[:1] if same else types)


def _one_each(each: AckRange) -> bytes:
    count = each.last_offset - each.first_offset + 1
    return each.types * count if len(each.types) == 1 else each.types
