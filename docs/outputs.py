"""What the code of a page prints and draws, put below each block at build time."""

import pathlib
import re
import subprocess
import sys
import tempfile

END = "\x1e"  # printed after each block
ROOT = pathlib.Path(__file__).parents[1]
PICTURES = "results/pages"  # below the sources, not kept
_AFTER = f"""
if "matplotlib.pyplot" in sys.modules:
    for _n in sys.modules["matplotlib.pyplot"].get_fignums():
        _figure = sys.modules["matplotlib.pyplot"].figure(_n)
        _figure.savefig(f"block-{{_block}}-{{_n}}.svg", bbox_inches="tight")
        sys.modules["matplotlib.pyplot"].close(_figure)
print({END!r}, end="")
_block += 1
"""


def with_outputs(text: str, pictures: pathlib.Path | None = None) -> str:
    """Run the Python blocks of a page in one process and insert what each makes.

    Args:
      text: Page.
      pictures: Folder for the pictures, or None to leave them out. The first line of
        the alternative text is the title of the picture.
    """
    parts = re.split(r"(```python\n.*?```\n)", text, flags=re.DOTALL)
    blocks = [part[len("```python\n") : -len("```\n")] for part in parts[1::2]]
    if not blocks:
        return text
    lines = ["import os, sys", "os.environ['MPLBACKEND'] = 'Agg'", "_block = 0"]
    lines += [f"sys.path.insert(0, {str(ROOT)!r})"]
    lines += [f"{block}{_AFTER}" for block in blocks]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        script = folder / "page.py"
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
        drawn = {p.name: p.read_bytes() for p in sorted(folder.glob("block-*.svg"))}
    for i, shown in enumerate(done.stdout.split(END)[: len(blocks)]):
        if shown.strip():
            parts[2 * i + 1] += f"\n```text\n{shown.rstrip()}\n```\n"
        for picture in (n for n in drawn if n.startswith(f"block-{i}-")):
            if pictures is not None:
                pictures.mkdir(parents=True, exist_ok=True)
                (pictures / picture).write_bytes(drawn[picture])
                place = f"../{PICTURES}/{pictures.name}/{picture}"
                parts[2 * i + 1] += f"\n![Picture made by the code above]({place})\n"
    return "".join(parts)


def fill(app, document, source):
    """Add outputs and pictures to a tutorial if ``-D run_pages=1`` asks for them."""
    if app.config.run_pages and document.startswith("tutorials/"):
        folder = pathlib.Path(app.srcdir) / PICTURES / pathlib.Path(document).name
        source[0] = with_outputs(source[0], folder)
