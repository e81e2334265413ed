"""Settings of the documentation: ``make docs`` builds it, warnings are errors.

API pages and tables of results are made at build time by `site_pages`. Formulas become
MathML (`mathml`), so that neither the build nor the site needs the net.
"""

import pathlib
import sys

DOCS = pathlib.Path(__file__).parent
sys.path[:0] = [str(DOCS), str(DOCS.parent)]

import outputs  # noqa: E402
import site_pages  # noqa: E402
import tables  # noqa: E402

import lowrank_jax  # noqa: E402

project = "lowrank_jax"
author = "the authors of lowrank_jax"
version = release = lowrank_jax.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "mathml",
]
exclude_patterns = ["_build", "results/*.md"]
source_suffix = {".md": "markdown"}
root_doc = "index"

html_theme = "furo"
html_math_renderer = "mathml"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_title = f"lowrank_jax {release}"
html_copy_source = False
html_show_copyright = False
smartquotes = False  # quotes as they are written, and a quicker build

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

autodoc_typehints_format = "short"
autodoc_use_type_comments = False
napoleon_use_ivar = True
python_maximum_signature_line_length = 88
default_role = "py:obj"  # names in docstrings: a link where there is one, else code
html_use_index = False
html_domain_indices = False


def setup(app):
    """Connect what is made at build time."""
    app.connect("builder-inited", lambda app: site_pages.write_api(app.srcdir))
    app.connect("source-read", site_pages.fill)
    app.add_config_value("run_pages", False, "env")  # True: tutorials show outputs
    app.connect("source-read", outputs.fill)
    app.connect("html-page-context", tables.label_cells)
    app.connect("autodoc-process-docstring", site_pages.add_fields)
    app.connect("doctree-read", site_pages.exact_names)
    app.connect("autodoc-skip-member", site_pages.skip_fields)
