"""Stop at the end of a pass when asked to, at once when asked twice.

A pass runs inside compiled code, and Python's own signal handlers wait for its end. The
wakeup pipe does not: its byte is written when the signal comes, and a thread reads it.
"""

import os
import signal
import sys
import threading
from types import TracebackType

__all__ = ["StopRequest"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """A context in which SIGINT and SIGTERM ask for a stop.

    Attributes:
      number: of the first signal that came, else None.
    """

    def __init__(self, message: str) -> None:
        """Remember what to say when the first signal comes."""
        self.number: int | None = None
        self._message = message
        self._is_active = False

    def __enter__(self) -> "StopRequest":
        """Take over the signals; outside the main thread Python forbids it."""
        if threading.current_thread() is not threading.main_thread():
            return self
        self._is_active = True
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        self._wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._handlers = {
            number: signal.signal(number, lambda *_: None) for number in _SIGNALS
        }
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the signals back."""
        if not self._is_active:
            return
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        os.close(self._write)
        self._thread.join()
        os.close(self._read)

    def _watch(self) -> None:
        while byte := os.read(self._read, 1):
            if byte[0] not in _SIGNALS:
                continue
            if self.number is not None:
                if sys.stderr.isatty():
                    sys.stderr.write("\033[?25h\n")  # show the cursor again
                os._exit(128 + byte[0])
            self.number = byte[0]
            print(self._message, file=sys.stderr, flush=True)
