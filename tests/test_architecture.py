"""The layout: who may import whom, what is needed, and how long a file may be.

Imports are read from the sources, so that lazy imports and imports for types count.
"""

import ast
import functools
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PACKAGE = "lowrank_jax"
MOST_LINES = 450

HOST = "checks data store"
DEVICE = f"{HOST} types linalg streams"
KERNELS = f"{DEVICE} decode models"
LIBRARY = f"{KERNELS} online batch loops wide sharding features metrics"
#: What each folder (or module at the top) may import beside itself and `lazy`.
ALLOWED = {
    "lazy": "",
    "checks": "",
    "data": "checks store",
    "features": HOST,
    "metrics": HOST,
    "types": HOST,
    "linalg": "checks types",
    "store": "checks",
    "streams": f"{HOST} types linalg",
    "decode": DEVICE,
    "models": f"{DEVICE} decode",
    "online": KERNELS,
    "batch": KERNELS,
    "loops": f"{HOST} types streams wide",
    "wide": f"{HOST} types streams",
    "sharding": DEVICE,
    "export": f"{HOST} types",
    "testing": f"{HOST} types streams loops",
    "theory": f"{KERNELS} batch",
    "certify": f"{KERNELS} online loops theory",
    "estimators": LIBRARY,
    "plots": f"{LIBRARY} estimators",
    "report": f"{LIBRARY} estimators",
    "verify": f"{LIBRARY} estimators theory certify report",
    "demo": f"{LIBRARY} estimators theory certify report verify",
    "cli": f"{LIBRARY} estimators theory certify report verify demo",
    "__main__": "cli",
}
COMMANDS = f"{PACKAGE}.cli.commands."


def name_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def modules():
    return {name_of(path): path for path in sorted((ROOT / PACKAGE).rglob("*.py"))}


def is_lazy(tree):
    return any(
        isinstance(node, ast.Call) and ast.unparse(node.func) == "lazy.attach"
        for node in ast.walk(tree)
    )


@functools.cache
def behind(name):
    """Return the module behind each name that a lazy package loads when asked for."""
    tree = ast.parse(modules()[name].read_text(encoding="utf-8"))
    return {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and is_lazy(tree)
        for alias in node.names
        if node.module.startswith(f"{name}.")
    }


def attributes(tree):
    """Return the dotted names that a module takes from packages of ours."""
    packages = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    return {
        f"{packages[node.value.id]}.{node.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        if packages.get(node.value.id) in modules()
        if node.attr in behind(packages[node.value.id])
    }


@functools.cache
def imports(name):
    """Return the modules of ours that a module imports anywhere, and the others."""
    tree = ast.parse(modules()[name].read_text(encoding="utf-8"))
    ours, others = set(), set()
    for full in attributes(tree):
        package, _, attribute = full.rpartition(".")
        ours.add(behind(package)[attribute])
    for node in ast.walk(tree):
        found = []
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} has a relative import"
            found = [f"{node.module}.{alias.name}" for alias in node.names]
        for full in found:
            if full.split(".")[0] != PACKAGE:
                others.add(full.split(".")[0])
            elif full in modules():
                ours.add(full)
            else:
                parent, _, last = full.rpartition(".")
                parent = behind(parent).get(last, parent) if parent in modules() else ""
                ours.add(parent or PACKAGE)
    if is_lazy(tree):  # a table of its own modules, none of which it loads
        ours = {one for one in ours if not one.startswith(f"{name}.")}
    return frozenset(ours - {name}), frozenset(others)


@functools.cache
def strings(name):
    """Return the modules of ours that a module names as text, to load them later."""
    tree = ast.parse(modules()[name].read_text(encoding="utf-8"))
    texts = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    if is_lazy(tree):
        return set()
    package = name if modules()[name].name == "__init__.py" else name.rpartition(".")[0]
    texts |= {f"{package}.{text}" for text in texts}  # named relative to the package
    return {text for text in texts if text in modules() and text != PACKAGE}


def closure(starts, with_strings=False):
    """Return all modules that loading some modules may load."""
    seen, todo = set(), list(starts)
    while todo:
        name = todo.pop()
        if name in seen or name not in modules():
            continue
        seen.add(name)
        todo += imports(name)[0]
        todo.append(name.rpartition(".")[0])  # a package comes with its modules
        if with_strings:
            todo += strings(name)
    return seen


def layer(name):
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else PACKAGE


@pytest.mark.slow
def test_a_layer_imports_the_layers_below_it():
    wrong = [
        f"{name} imports {other}"
        for name in modules()
        for other in imports(name)[0]
        if layer(name) != layer(other)
        and layer(name) != PACKAGE
        and layer(other) not in (*ALLOWED[layer(name)].split(), "lazy", PACKAGE)
    ]
    assert wrong == []


def test_no_module_imports_itself_by_a_ring():
    """Neither at the top of a module nor later, nor for types alone."""
    state, rings = {}, []

    def visit(name, path):
        state[name] = "open"
        for other in sorted(imports(name)[0]):
            if state.get(other) == "open":
                rings.append(" -> ".join([*path[path.index(other) :], other]))
            elif other not in state:
                visit(other, [*path, other])
        state[name] = "done"

    for name in modules():
        if name not in state:
            visit(name, [name])
    assert rings == []


def test_no_command_imports_another():
    wrong = [
        f"{name} imports {other}"
        for name in modules()
        for other in imports(name)[0]
        if name.startswith(COMMANDS) and other.startswith(COMMANDS)
    ]
    assert wrong == []


@pytest.mark.parametrize("folder", ["data", "features", "store"])
def test_the_host_side_reaches_no_jax(folder):
    starts = [name for name in modules() if layer(name) == folder]
    if folder == "store":  # a checkpoint holds arrays of the device
        starts = [f"{PACKAGE}.store.files", f"{PACKAGE}.store.folder"]
    reached = closure(starts)
    assert [name for name in reached if {"jax", "jaxlib"} & imports(name)[1]] == []


def test_the_library_does_not_know_the_experiments():
    wrong = [name for name in modules() if {"experiments", "tests"} & imports(name)[1]]
    assert wrong == []


def hand_written():
    """Return README and the pages, without what is made from result files."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    pages += [
        *(ROOT / "docs/papers").glob("*.md"),
        *(ROOT / "docs/tutorials").glob("*"),
    ]
    return "\n".join(
        page.read_text(encoding="utf-8") for page in pages if page.name != "measured.md"
    )


def test_every_module_is_needed_by_a_command_or_named_on_a_page():
    starts = [name for name in modules() if name.startswith(COMMANDS)]
    needed = closure([f"{PACKAGE}.__main__", *starts], with_strings=True)
    text = hand_written()
    named = {
        name
        for name in modules()
        if re.search(rf"\b{re.escape(name.partition('.')[2])}\b", text)
        or re.search(rf"`{layer(name)}\.{name.rpartition('.')[2]}\b", text)
    }
    needed |= closure(named)
    assert sorted(set(modules()) - needed) == []


def test_no_file_is_long():
    paths = [*modules().values(), *(ROOT / "experiments").rglob("*.py")]
    sizes = {path: len(path.read_text("utf-8").splitlines()) for path in paths}
    long = {name_of(p): size for p, size in sizes.items() if size > MOST_LINES}
    assert long == {}


def test_the_page_of_the_design_shows_the_whole_tree():
    """Each folder is a line of the tree, and its modules stand in that line."""
    text = (ROOT / "docs/design.md").read_text(encoding="utf-8")
    shown, folders, path = text.split("```")[1], {}, []
    for line in shown.splitlines():
        found = re.match(r"( *)(\w+)/(?:\s|$)(.*)", line)
        if found and len(found[1]) <= 4:
            path = [*path[: len(found[1]) // 2], found[2]]
            folders["/".join(path)] = found[3].split()
        elif path:
            folders["/".join(path)] += line.split()
    for name, file in modules().items():
        folder = str(file.parent.relative_to(ROOT))
        if not file.stem.startswith("__"):
            assert file.stem in folders[folder], name
