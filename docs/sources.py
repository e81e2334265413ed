"""Fill pages with pieces of the sources, so that a page shows what the code is.

A comment such as ``<!-- source: lowrank_jax/types.py Learner -->`` stands before a
block of code, which is written from the file. A name may have dots:
``learner.update``. Sections of its docstring (``Args``, ``Returns``) are left out.

python docs/sources.py          # rewrite docs/core.md
python docs/sources.py --check  # status 1 if it is not what the sources say
"""

import ast
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).parent.parent
PAGE = ROOT / "docs" / "core.md"
SECTIONS = re.compile(r'\n\n +(?:Args|Returns):\n.*?"""\n', re.DOTALL)
BLOCK = re.compile(r"<!-- source: (\S+) (\S+) -->\n\n```py\n.*?```\n", re.DOTALL)


def piece(path: str, name: str) -> str:
    """Return the source of a function or class, without indentation."""
    text = (ROOT / path).read_text(encoding="utf-8")
    node: ast.AST = ast.parse(text)
    for part in name.split("."):
        (node,) = (
            child
            for child in node.body
            if isinstance(child, ast.FunctionDef | ast.ClassDef) and child.name == part
        )
    first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
    lines = text.split("\n")[first - 1 : node.end_lineno]
    code = textwrap.dedent("\n".join(lines))
    return SECTIONS.sub(r'"""\n', code, count=1)


def filled(text: str) -> str:
    """Return a page with its blocks as the sources have them."""
    return BLOCK.sub(
        lambda found: (
            f"<!-- source: {found[1]} {found[2]} -->\n\n"
            f"```py\n{piece(found[1], found[2])}\n```\n"
        ),
        text,
    )


def main() -> int:
    """Rewrite the page, or say whether it is as it should be."""
    text = PAGE.read_text(encoding="utf-8")
    new = filled(text)
    if "--check" in sys.argv:
        return 0 if new == text else 1
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
