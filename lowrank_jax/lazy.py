"""Packages that load a module when it is first asked for."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["attach", "table"]
__dir__ = __all__.copy


def attach(
    package: str, names: Mapping[str, str]
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__all__``, ``__getattr__`` and ``__dir__`` of a package.

    Args:
      package: Name of the package.
      names: Public name to the module it is, or, after a colon, to an object of that
        module. Modules are named relative to the package.
    """
    public = sorted(names)

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, _, attribute = names[name].partition(":")
        found = importlib.import_module(f"{package}.{module}")
        return getattr(found, attribute) if attribute else found

    return public, get, lambda: public


def table(modules: Mapping[str, str]) -> dict[str, str]:
    """Return the names for `attach` from the names that each module offers.

    Args:
      modules: Module, relative to the package, to its names with blanks between.
    """
    return {
        name: f"{module}:{name}"
        for module, names in modules.items()
        for name in names.split()
    }
