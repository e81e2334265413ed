"""What a part of the campaign has tried and found."""

import dataclasses
import time


@dataclasses.dataclass
class Part:
    """One line of the table.

    Attributes:
      name: What was tried.
      seconds: Time that the part may take.
      tried: Number of trials.
      found: Sentences on what went wrong.
      note: Figures of the part.
    """

    name: str
    seconds: float
    tried: int = 0
    found: list[str] = dataclasses.field(default_factory=list)
    note: str = ""

    def __post_init__(self) -> None:
        """Start the clock."""
        self._began = time.monotonic()

    @property
    def is_over(self) -> bool:
        """True when the time is up, and a dozen trials are made on any machine."""
        return self.tried > 11 and time.monotonic() - self._began > self.seconds

    def trial(self, wrong: str | None = None) -> None:
        """Count a trial, and keep what was wrong with it."""
        self.tried += 1
        if wrong:
            self.found.append(wrong)

    def end(self) -> "Part":
        """Keep the time that it took."""
        self.seconds = time.monotonic() - self._began
        return self


def table(parts: list[Part]) -> str:
    """Return a table in Markdown, and below it what was found."""
    lines = ["| part | tried | found | seconds | figures |", "|---|--:|--:|--:|---|"]
    for part in parts:
        lines.append(
            f"| {part.name} | {part.tried:,} | {len(part.found)} | {part.seconds:.0f} "
            f"| {part.note} |"
        )
    for part in parts:
        lines += [f"* {part.name}: {sentence}" for sentence in part.found[:20]]
    return "\n".join(lines)
