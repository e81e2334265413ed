"""The built site in Chromium: no error, no outside address, nothing cut on a phone."""

import html
import json
import re

import pytest

from tests.docs import browser

PAGES = (
    "index",
    "quickstart",
    "coming-from-matrices",
    "how-to-choose",
    "tutorials/sblr",
    "papers/sblr",
    "papers/smm",
    "papers/tm",
    "theory",
    "measured",
    "api/online",
    "search",
)
# Opens every page in a frame, and writes what it sees into its own document.
FRAMES = """<!DOCTYPE html><html><body style="margin:0">{frames}
<script>
addEventListener("load", () => {{
  const seen = {{}};
  for (const frame of document.querySelectorAll("iframe")) {{
    const page = frame.contentDocument, view = frame.contentWindow;
    const inside = (element) => element.closest(
      ".table-wrapper, table, pre, div.math, .sidebar-drawer, .toc-drawer, math, svg");
    seen[frame.title] = {{
      width: view.innerWidth,
      page: page.documentElement.scrollWidth,
      wide: [...page.querySelectorAll("article *")].filter((element) =>
        !inside(element) && element.getBoundingClientRect().right > view.innerWidth + 1
      ).map((element) => element.outerHTML.slice(0, 80)),
      scrolling: [...page.querySelectorAll(
        "table.rows, div:not(.highlight-text) > .highlight > pre")].filter((element) =>
        element.scrollWidth > element.clientWidth + 1
      ).map((element) => element.textContent.slice(0, 60)),
      images: [...page.images].filter((image) => !image.naturalWidth).length,
      headings: page.querySelectorAll("h1").length,
      search: page.querySelectorAll("input[name=q]").length,
      outside: view.performance.getEntriesByType("resource").map((e) => e.name).filter(
        (name) => /^https?:/.test(name)),
    }};
  }}
  document.documentElement.dataset.seen = JSON.stringify(seen);
}});
</script></body></html>"""


def look(site, tmp_path, width, pages=PAGES):
    """Return what each page looks like at a width, and the log of the browser."""
    frames = "".join(
        f"<iframe title='{name}' src='{name}.html' "
        f"style='border:0;width:{width}px;height:844px'></iframe>"
        for name in pages
    )
    page = site / f"frames-{width}.html"
    page.write_text(FRAMES.format(frames=frames), "utf-8")
    dom, log = browser.open_page(page, tmp_path / "profile", "--dump-dom")
    page.unlink()
    (seen,) = re.findall(r'data-seen="([^"]*)"', dom)
    return json.loads(html.unescape(seen)), log


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1280])
def test_every_page_can_be_read_without_the_net(site, tmp_path, width):
    seen, log = look(site, tmp_path, width)
    assert "CONSOLE" not in log, log
    for name, found in seen.items():
        assert found["width"] == width, name
        assert found["headings"] >= 1 or name == "search"
        assert found["page"] <= width and found["wide"] == [], (name, found)
        assert found["images"] == 0 and found["outside"] == [], (name, found)
        assert found["search"] >= 1, name
        if width < 500:
            assert found["scrolling"] == [], (name, found)


def test_a_request_to_the_outside_and_a_wide_page_would_be_seen(tmp_path):
    (tmp_path / "bad.html").write_text(
        "<img src='https://example.org/a.png'><p style='width:900px'>wide</p>"
    )
    seen, _ = look(tmp_path, tmp_path, 390, ["bad"])
    assert (
        seen["bad"]["outside"] and seen["bad"]["images"] and seen["bad"]["page"] > 390
    )
