"""Packages that load a module when it is first asked for."""

import ast
import importlib
import importlib.util
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["attach"]
__dir__ = __all__.copy


def attach(
    package: str, modules: Iterable[str] = ()
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__all__``, ``__getattr__`` and ``__dir__`` of a package.

    The public names are those that the package imports under ``if TYPE_CHECKING``. So
    they stand once, for type checkers and at run time.

    Args:
      package: Name of the package.
      modules: Further public modules of the package.
    """
    places = {name: (package, name) for name in modules} | _imported(package)
    public = sorted(places)

    def get(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, attribute = places[name]
        if module != package:
            found = importlib.import_module(module)
            if hasattr(found, attribute):
                return getattr(found, attribute)
        return importlib.import_module(f"{module}.{attribute}")

    return public, get, lambda: public


def _imported(package: str) -> dict[str, tuple[str, str]]:
    """Return module and name behind each name imported under ``if TYPE_CHECKING``."""
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.loader is not None
    text = spec.loader.get_source(package)  # type: ignore[attr-defined]
    return {
        alias.asname or alias.name: (str(node.module), alias.name)
        for block in ast.parse(text).body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
