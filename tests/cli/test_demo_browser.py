"""The demo's page in a real browser: it loads, without error, and can be read."""

import json
import re
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.slow  # the demo in small

# Writes what it sees into the page, to be read from the DOM that the browser prints.
PROBE = """
<script>
window.addEventListener("load", () => {
  const box = (element) => element.getBoundingClientRect();
  const wide = [...document.body.querySelectorAll("*")].filter((element) =>
    !element.closest(".wide, pre, svg") && box(element).right > innerWidth + 1);
  const pictures = [...document.querySelectorAll("svg")].map((element) => ({
    width: box(element).width,
    height: box(element).height,
    marks: element.querySelectorAll("path, text, image, use").length,
    label: element.getAttribute("aria-label"),
  }));
  document.documentElement.dataset.seen = JSON.stringify({
    width: innerWidth,
    page: document.documentElement.scrollWidth,
    wide: wide.map((element) => element.outerHTML.slice(0, 80)),
    pictures: pictures,
    font: parseFloat(getComputedStyle(document.body).fontSize),
    cut: [...document.querySelectorAll(".wide")].filter((element) =>
      element.scrollWidth > element.clientWidth + 1).map((element) =>
      element.textContent.slice(0, 80)),
    images: [...document.images].filter((image) => !image.naturalWidth).length,
    headings: document.querySelectorAll("h2").length,
  });
});
</script>
"""


@pytest.fixture(scope="module")
def browse(tmp_path_factory):
    """Return a function from a page and options to the DOM and the browser's log."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("chromium is not installed")

    def run(page, *options):
        done = subprocess.run(
            [
                browser,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--hide-scrollbars",
                "--enable-logging=stderr",
                f"--user-data-dir={tmp_path_factory.mktemp('profile')}",
                *options,
                page.as_uri(),
            ],
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=120,
            check=True,
        )
        return done.stdout, done.stderr

    return run


@pytest.fixture(scope="module")
def look(browse, demo_report, tmp_path_factory):
    """Return a function from a window's width to what a probe in the page sees."""
    text = demo_report.page.read_text("utf-8")
    page = tmp_path_factory.mktemp("probed") / "page.html"
    page.write_text(text.replace("</body>", f"{PROBE}</body>"), "utf-8")

    def run(width):
        # A window is never narrower than 500 without a frame to hold the page.
        frame = page.with_name(f"frame-{width}.html")
        frame.write_text(
            "<!DOCTYPE html><html><body style='margin:0'>"
            f"<iframe src='page.html' style='border:0;width:{width}px;height:844px'>"
            "</iframe><script>addEventListener('load', () => {"
            "const inner = frames[0].document.documentElement;"
            "document.documentElement.dataset.seen = inner.dataset.seen;"
            "});</script></body></html>"
        )
        dom, log = browse(
            frame,
            "--allow-file-access-from-files",
            "--virtual-time-budget=5000",
            "--dump-dom",
        )
        (seen,) = re.findall(r'data-seen="([^"]*)"', dom)
        return json.loads(seen.replace("&quot;", '"').replace("&amp;", "&")), log

    return run


@pytest.mark.parametrize("width", [390, 1200])
def test_the_page_loads_and_all_of_it_can_be_read(look, width):
    seen, log = look(width)
    assert "CONSOLE" not in log, log
    assert seen["width"] == width and seen["headings"] >= 10
    assert seen["page"] <= width and seen["wide"] == []
    assert seen["cut"] == []
    assert seen["font"] >= 16 and seen["images"] == 0
    assert len(seen["pictures"]) == 14
    for picture in seen["pictures"]:
        assert picture["width"] > min(width, 600) * 0.8
        assert picture["height"] > 80 and picture["marks"] > 5 and picture["label"]


def test_a_console_error_would_be_seen(browse, tmp_path):
    page = tmp_path / "bad.html"
    page.write_text("<script>missing()</script>")
    _, log = browse(page, "--dump-dom")
    assert "CONSOLE" in log


def test_a_screenshot_at_phone_width_is_not_empty(browse, demo_report, tmp_path):
    picture = tmp_path / "phone.png"
    browse(demo_report.page, "--window-size=390,844", f"--screenshot={picture}")
    assert picture.stat().st_size > 20_000
