"""What the documentation makes at build time: API pages and small tables of results.

API pages. One page per package and one for the modules beside them, from ``__all__`` of
every module there is: whoever adds a module need not touch the pages. An object is
described once, in the module that defines it; where it is exported again stands a link.

Tables. A comment such as ``<!-- choice: words -->`` in a page is replaced by a table
made from docs/results, so that no figure is typed by hand. On pages read without a
build the comment shows nothing; docs/measured.md, which docs/figures.py writes, has the
same figures.
"""

import ast
import collections
import importlib
import inspect
import json
import pathlib
import pkgutil
import re
import types

import jax
from sphinx import addnodes

import lowrank_jax
from experiments.tables import markdown

DOCS = pathlib.Path(__file__).parent
RESULTS = DOCS / "results"
TOP = "lowrank_jax"


#: The package of the command line: its modules are meant for nothing else, and the
#: package alone is described.
COMMANDS = "cli"


def public_modules():
    """Return every module with ``__all__`` that is meant to be imported, by name."""
    found = {TOP: lowrank_jax}
    for info in pkgutil.walk_packages(lowrank_jax.__path__, f"{TOP}."):
        parts = info.name.split(".")
        if parts[-1].startswith("_") or (len(parts) > 2 and parts[1] == COMMANDS):
            continue
        module = importlib.import_module(info.name)
        if hasattr(module, "__all__"):
            found[info.name] = module
    return found


def page_of(module_name):
    """Return the page of a module: its package, or the page of top-level modules."""
    parts = module_name.split(".")
    if len(parts) == 1:
        return "top-level"
    is_package = hasattr(importlib.import_module(".".join(parts[:2])), "__path__")
    return parts[1] if is_package else "top-level"


def homes(modules):
    """Return for each (module, name) the full name under which it is described."""
    owned = {(m, n) for m in modules for n in modules[m].__all__}
    found = {}
    for name, module in modules.items():
        for public in module.__all__:
            value = getattr(module, public)
            if isinstance(value, types.ModuleType):
                continue
            home = getattr(value, "__module__", None)
            if not isinstance(home, str) or (home, public) not in owned:
                home = _assigned_in(modules, public, value) or name
            found[name, public] = f"{home}.{public}"
    return found


def _assigned_in(modules, public, value):
    """Return the module that assigns the constant: the one that is no package."""
    same = [
        name
        for name, module in modules.items()
        if public in module.__all__ and getattr(module, public) is value
    ]
    same.sort(key=lambda name: (not _assigns(modules[name], public), name))
    return same[0] if same else None


def _assigns(module, public):
    tree = ast.parse(inspect.getsource(module))
    targets = [
        target
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    ]
    return any(isinstance(t, ast.Name) and t.id == public for t in targets)


def write_api(folder):
    """Write the API pages where they are not as they should be; remove old ones."""
    folder = pathlib.Path(folder) / "api"
    folder.mkdir(exist_ok=True)
    texts = {f"{name}.md": text for name, text in api_pages().items()}
    for path in folder.glob("*.md"):
        if path.name not in texts:
            path.unlink()
    for name, text in texts.items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def api_pages():
    """Return the text of each API page by its name."""
    modules = public_modules()
    places = homes(modules)
    sections = collections.defaultdict(list)
    for name in sorted(modules):
        sections[page_of(name)].append(_section(name, modules[name], places))
    pages = {}
    for page, parts in sections.items():
        title = "Top-level modules" if page == "top-level" else f"{TOP}.{page}"
        pages[page] = f"# {title}\n\n" + "\n".join(parts)
    order = ["top-level", *sorted(set(pages) - {"top-level"})]
    listed = "\n".join(order)
    pages["index"] = (
        "# API\n\nEvery public name, from the docstrings; each is described in the "
        "module that defines it.\n\n"
        f"```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n"
    )
    return pages


def _section(name, module, places):
    """Return the part of a page that describes one module."""
    here, constants, elsewhere, rules = [], [], [], []
    for public in module.__all__:
        value = getattr(module, public)
        if isinstance(value, types.ModuleType):
            elsewhere.append(f":py:mod:`{public} <{value.__name__}>`")
        elif places[name, public] != f"{name}.{public}":
            elsewhere.append(f":py:obj:`{public} <{places[name, public]}>`")
        elif public.startswith("__"):
            continue
        elif isinstance(value, jax.custom_jvp | jax.custom_vjp):
            rules.append(f"{name}.{public}")
        elif inspect.isclass(value) or _is_function(value):
            here.append(public)
        else:
            constants.append(f"{name}.{public}")
    lines = [f".. automodule:: {name}"]
    if here:
        lines += [f"   :members: {', '.join(here)}", "   :member-order: bysource"]
    for rule in rules:  # a function with a derivative of its own
        lines += ["", f".. autofunction:: {rule}"]
    for constant in constants:
        lines += ["", f".. autodata:: {constant}", "   :no-value:"]
    if elsewhere:
        lines += ["", f"Exported from elsewhere: {', '.join(elsewhere)}."]
    body = "\n".join(lines)
    return f"## {name}\n\n```{{eval-rst}}\n{body}\n```\n"


def _is_function(value):
    """Tell functions, jitted ones too, from types such as ``tuple[int, ...]``."""
    return callable(value) and not hasattr(value, "__origin__")


def exact_names(app, doctree):
    """Look names in signatures up as they are written.

    Sphinx would search all objects for one whose name ends so, for each type in each
    signature: a good part of the time of a build, and links to the wrong `State`.
    """
    for node in doctree.findall(addnodes.pending_xref):
        if "refspecific" in node:
            del node["refspecific"]


def skip_fields(app, what, name, value, skip, options):
    """Leave out the fields of named tuples: `add_fields` tells more of them."""
    return True if type(value).__name__ == "_tuplegetter" else None


def add_fields(app, what, name, value, options, lines):
    """Describe the fields of a named tuple by the comments on their lines.

    A constant that nothing is said of has the docstring of its type: it is dropped.
    """
    if what == "data" and lines and (type(value).__doc__ or "").startswith(lines[0]):
        lines.clear()
    lines[:] = [_plain(line) for line in lines]
    if what != "class" or not hasattr(value, "_fields"):
        return
    if any(line.startswith((":ivar", ".. attribute::")) for line in lines):
        return
    try:
        source = inspect.getsource(value)
    except (OSError, TypeError):
        return
    comments = dict(re.findall(r"^    (\w+): [^#\n]*#\s*(.+)$", source, re.MULTILINE))
    told = [field for field in value._fields if field in comments]
    if told:
        lines += ["", *(f":ivar {field}: ``{comments[field]}``" for field in told), ""]


def _plain(line):
    """Take words such as ``|P|`` and a name with letters after it as they stand."""
    parts = re.split(r"(`+[^`]*`+)", line)
    for i, part in enumerate(parts):
        if i % 2 == 0:
            if line.startswith(":ivar"):  # no formula stands there by itself
                parts[i] = re.sub(r"(?<!\\)\|", r"\|", part)
            else:
                parts[i] = re.sub(r"(?<!\\)\|(\w+)\|", r"\|\1\|", part)
        elif parts[i + 1][:1].isalnum():
            parts[i] = part + "\\ "
    return "".join(parts)


def fill(app, document, source):
    """Replace the comments that stand for results, and links that leave the site."""
    text = source[0]
    up = "../" * document.count("/")
    for name, make in FILLS.items():
        mark = f"<!-- {name} -->"
        if mark in text:
            text = text.replace(mark, make())
    # The README and the folder of results have one page here, the page of figures.
    text = re.sub(
        r"\]\((?:\.\./)+README\.md(?:#[\w-]*)?\)", f"]({up}measured.md)", text
    )
    text = re.sub(r"\]\((?:\.\./)*results/\)", f"]({up}measured.md)", text)
    source[0] = text


def load(name):
    """Return a result, or None where it is not there."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def sequence_choice():
    """Return F1 and seconds on CoNLL-2000."""
    result = load("bol-fig3")
    if result is None:
        return ""
    rows = [
        [row["method"], f"{row['f1']:.2f}", f"{row['train_seconds']:.1f}"]
        for row in result["rows"]
    ]
    return markdown(["CoNLL-2000 chunking", "F1", "seconds to train"], rows)


def word_choice():
    """Return what the bench of SMM says of tagging beside CRFsuite."""
    result = load("bench-smm")
    if result is None:
        return ""
    found = result["tagging"]
    rows = [
        [name, f"{found[f'{key}_accuracy']:.1f}", f"{found[key]:,.0f}"]
        for name, key in (("SMM, order 3", "smm"), ("CRFsuite", "CRFsuite"))
    ]
    head = [
        f"NETtalk, {result['num_words']:,} words",
        "letters right, %",
        "tagged per second",
    ]
    return markdown(head, rows)


def list_choice():
    """Return microseconds per round of MIRA and T-MIRA by the number of features."""
    result = load("bench-tm")
    if result is None:
        return ""
    found = collections.defaultdict(dict)
    for row in result["by_num_features"]:
        found[row["num_features"]][row["learner"]] = row["microseconds"]
    rows = [
        [f"{size:,}", f"{here['MIRA']:.0f}", f"{here['T-MIRA']:.0f}"]
        for size, here in sorted(found.items())
    ]
    return markdown(["features", "MIRA, µs per round", "T-MIRA, µs per round"], rows)


def theory_modules():
    """Return the modules of `theory` with the first sentence of each."""
    rows = []
    for name, module in sorted(public_modules().items()):
        if name.startswith(f"{TOP}.theory."):
            words = " ".join((module.__doc__ or "").split("\n\n")[0].split())
            words = re.sub(r":math:`([^`]*)`", r"$\1$", words)
            rows.append(f"* `{name.removeprefix(f'{TOP}.')}`: {words}\n")
    return "".join(rows)


FILLS = {
    "theory modules": theory_modules,
    "choice: sequences": sequence_choice,
    "choice: words": word_choice,
    "choice: lists": list_choice,
}
