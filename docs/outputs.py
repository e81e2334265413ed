"""What the code of a page prints, put below each block when the site is built."""

import pathlib
import re
import subprocess
import sys
import tempfile

END = "\x1e"  # printed after each block
ROOT = pathlib.Path(__file__).parents[1]


def with_outputs(text: str) -> str:
    """Run the Python blocks of a page in one process and insert what each prints."""
    parts = re.split(r"(```python\n.*?```\n)", text, flags=re.DOTALL)
    blocks = [part[len("```python\n") : -len("```\n")] for part in parts[1::2]]
    if not blocks:
        return text
    lines = ["import sys", f"sys.path.insert(0, {str(ROOT)!r})"]
    lines += [f"{block}\nprint({END!r}, end='')" for block in blocks]
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder) / "page.py"
        script.write_text("\n".join(lines), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, str(script)],
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,
        )
    if done.returncode:
        raise RuntimeError(f"The code of a page fails:\n{done.stderr[-2000:]}")
    for i, shown in enumerate(done.stdout.split(END)[: len(blocks)]):
        if shown.strip():
            parts[2 * i + 1] += f"\n```text\n{shown.rstrip()}\n```\n"
    return "".join(parts)


def fill(app, document, source):
    """Add the outputs to a tutorial if ``-D run_pages=1`` asks for them."""
    if app.config.run_pages and document.startswith("tutorials/"):
        source[0] = with_outputs(source[0])
