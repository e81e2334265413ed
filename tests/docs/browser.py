"""A page in a real browser, without a window and without the net."""

import shutil
import subprocess

import pytest


def browser():
    """Return the path of Chromium, or skip by its name."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("chromium is not installed")
    return found


def open_page(page, profile, *options):
    """Open a file and return its DOM and the log of the browser.

    No name is looked up, so a request to an outside address fails and is in the log.
    """
    done = subprocess.run(
        [
            browser(),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--hide-scrollbars",
            "--enable-logging=stderr",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            "--allow-file-access-from-files",
            "--virtual-time-budget=8000",
            f"--user-data-dir={profile}",
            *options,
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        check=True,
    )
    return done.stdout, done.stderr
