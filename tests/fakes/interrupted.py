"""Ctrl-C wherever the interpreter looks for it, one place after the other.

It looks when a function begins, after a call, and when it jumps back; so the entry and the exit of
a `with lock:` are whole.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

Run = Callable[[Callable[[], object]], bool]

_BEFORE = {dis.opmap[name] for name in ("RESUME", "JUMP_BACKWARD") if name in dis.opmap}
_BEHIND = {dis.opmap[name] for name in ("CALL", "CALL_KW", "CALL_FUNCTION_EX") if name in dis.opmap}


def interrupt_at(place: int, call: Callable[[], object]) -> bool:
    """Run `call` and raise KeyboardInterrupt in it at the place of that number, in whatever
    function of pylog's that is; whether there were so many places.
    """
    left = place
    last: dict[FrameType, int] = {}

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal left
        if "/pylog/" not in frame.f_code.co_filename:
            return None  # a finalizer, for example, that drops what is raised in it
        frame.f_trace_opcodes = True
        if event == "opcode":
            operation = frame.f_code.co_code[frame.f_lasti]
            if operation in _BEFORE or last.get(frame) in _BEHIND:
                if left == 0:
                    raise KeyboardInterrupt
                left -= 1
            last[frame] = operation
        elif event == "return":
            last.pop(frame, None)
        return trace

    before = sys.gettrace()
    # Python 3.12 tells of opcodes only where a frame wanted so before tracing begins.
    sys._getframe().f_trace_opcodes = True
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
        last.clear()  # and with the frames whatever they had in hand
    return False


def interrupt_everywhere(check: Callable[[Run], bool], every: int = 1) -> int:
    """Have `check` run its call with an interrupt ever later (`every` so many places), until the
    call ends before; how many times it was interrupted.
    """
    place = times = 0
    while check(lambda call, at=place: interrupt_at(at, call)):  # type: ignore[misc]
        place += every
        times += 1
    return times
