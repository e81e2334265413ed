"""A process that dies at a file operation, without dying.

From operation number k on, every operation of the file system raises. So neither the
operation nor any cleaning up after it takes place, as after ``kill -9``.
"""

import contextlib
import os
from collections.abc import Callable, Iterator

OPERATIONS = ("open", "replace", "rename", "unlink", "fsync", "mkdir", "rmdir", "write")


class Dead(BaseException):
    """The process is dead from here on."""


@contextlib.contextmanager
def dying_at(number: int) -> Iterator[list[str]]:
    """Let this process die at the operation of this number; yield the operations."""
    done: list[str] = []
    originals = {name: getattr(os, name) for name in OPERATIONS}

    def patched(name: str) -> Callable[..., object]:
        original = originals[name]

        def call(*given: object, **options: object) -> object:
            is_read = name == "open" and not (
                int(given[1]) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)  # type: ignore
            )
            if is_read and len(done) < number:
                return original(*given, **options)
            if len(done) >= number:
                raise Dead
            done.append(f"{name} {given[0]}")
            if len(done) >= number:
                raise Dead
            return original(*given, **options)

        return call

    try:
        for name in OPERATIONS:
            setattr(os, name, patched(name))
        yield done
    finally:
        for name, original in originals.items():
            setattr(os, name, original)


def crash_points(
    prepare: Callable[[], None],
    act: Callable[[], object],
    check: Callable[[], str],
    *,
    most: int = 1000,
) -> Iterator[tuple[int, str, str]]:
    """Yield number, operation and what is wrong ("" if nothing) for each crash point.

    Args:
      prepare: Function that brings the disk to the state before.
      act: Function that writes; it is run anew for each crash point.
      check: Function that says what is wrong with what is on the disk.
      most: Largest number of crash points.
    """
    for number in range(1, most):
        prepare()
        with dying_at(number) as done:
            try:
                act()
            except Dead:
                pass
        is_over = len(done) < number
        yield number, done[-1] if done else "", check()
        if is_over:
            return
