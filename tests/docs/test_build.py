"""The site builds without a warning and describes every public name."""

import importlib
import pathlib
import pkgutil
import re
import types
import zlib

import pytest

import lowrank_jax

ROOT = pathlib.Path(__file__).parents[2]
DOCS = ROOT / "docs"
COMMANDS = "cli"  # of this the package alone is described


def public_names():
    """Yield (module, name) for each ``__all__`` that is meant to be imported."""
    for info in pkgutil.walk_packages(lowrank_jax.__path__, "lowrank_jax."):
        parts = info.name.split(".")
        if parts[-1] == "__main__" or (len(parts) > 2 and parts[1] == COMMANDS):
            continue
        module = importlib.import_module(info.name)
        for name in getattr(module, "__all__", ()):
            yield module, name


def described(folder):
    """Return the full names that a built site describes, from its inventory."""
    content = (folder / "objects.inv").read_bytes().split(b"\n", 4)[4]
    lines = zlib.decompress(content).decode().splitlines()
    found = [re.match(r"(\S+) py:(\w+) ", line) for line in lines]
    return {match[1] for match in found if match}


def value_of(full_name):
    """Return what a full name stands for; fails where there is no such thing."""
    parts = full_name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            value = getattr(value, part)
        return value
    raise AssertionError(full_name)


@pytest.mark.slow
def test_site_builds_without_warnings_and_has_every_public_name(site):
    there = described(site)
    for full_name in there:
        value_of(full_name)  # no page describes what is gone
    pages = {page.stem: page.read_text() for page in (DOCS / "api").glob("*.md")}
    missing = []
    for module, name in public_names():
        value = getattr(module, name)
        full_name = f"{module.__name__}.{name}"
        if isinstance(value, types.ModuleType):
            full_name = value.__name__
        if full_name in there:
            continue
        # Described elsewhere: a link under the heading of the module leads there.
        package = module.__name__.split(".")[1]
        text = pages.get(package, pages["top-level"])
        section = text.partition(f"## {module.__name__}\n")[2].partition("\n## ")[0]
        link = re.search(rf"`{name} <([\w.]+)>`", section)
        if link is None or link[1] not in there or value_of(link[1]) is not value:
            missing.append(full_name)
    assert not missing

    choice = (site / "how-to-choose.html").read_text()
    assert "CRFsuite averaged perceptron" in choice  # tables are filled in
    assert "<!-- choice" not in choice
    check_offline(site)


def check_offline(site):
    """Every page loads files of the site alone, and its links lead to what is there."""
    theory = (site / "theory.html").read_text()
    assert "<math" in theory and "mathjax@" not in theory.lower()
    outside = r"<(?:script|img|iframe)[^>]*src=\"(?:https?:)?//|@import|url\(.?https?:"
    sheet = r"<link[^>]*rel=\"stylesheet\"[^>]*href=\"(?:https?:)?//"
    for page in site.rglob("*.html"):
        text = page.read_text()
        assert not re.search(outside, text) and not re.search(sheet, text), page
        for link in re.findall(r"(?:href|src)=\"([^\"#?]+)[^\"]*\"", text):
            if not re.match(r"[a-z]+:", link):
                assert (page.parent / link).exists(), (page.name, link)


def test_pages_of_what_is_gone_are_removed(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    site_pages = importlib.import_module("site_pages")
    (tmp_path / "api").mkdir()
    (tmp_path / "api" / "gone.md").write_text("# gone\n")
    site_pages.write_api(tmp_path)
    names = {page.name for page in (tmp_path / "api").iterdir()}
    assert {"index.md", "online.md", "top-level.md"} <= names
    assert "gone.md" not in names


@pytest.mark.parametrize("paper", ["sblr", "smm", "tm"])
def test_every_claim_of_a_paper_has_a_test_that_is_there(paper):
    text = (DOCS / "papers" / f"{paper}.md").read_text()
    head = "| claim | equation | function | test | measured here | verdict |"
    assert head in text
    table = text.partition(head)[2].partition("\n\n")[0].splitlines()[2:]
    assert len(table) >= 8
    every = "\n".join(p.read_text() for p in (ROOT / "tests").rglob("test_*.py"))
    for row in table:
        cells = [cell.strip() for cell in row.strip("|").split(" | ")]
        assert len(cells) == 6 and all(cells), row
    for name in re.findall(r"`(test_\w+)(?:\[[^`]*)?`", text):
        assert f"def {name}(" in every, name
    for place in re.findall(r"`(tests/[\w/.]+)`", text):
        assert (ROOT / place).exists(), place


@pytest.mark.parametrize("folder", [DOCS, DOCS / "papers", DOCS / "tutorials"])
def test_linked_files_are_there(folder):
    for page in folder.glob("*.md"):
        for link in re.findall(r"\]\(((?!http|#)[^)#]+)", page.read_text()):
            assert (folder / link).exists(), f"{page.name}: {link}"


def test_the_core_is_what_the_sources_say(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    sources = importlib.import_module("sources")
    text = sources.PAGE.read_text()
    assert sources.filled(text) == text, "run python docs/sources.py"
    assert text.count("<!-- source: ") == text.count("```py\n") == 8
    assert "Args:" not in text
