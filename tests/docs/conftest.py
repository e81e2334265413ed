"""The site, built once for all tests of a run."""

import os
import pathlib
import subprocess
import sys
import time

import pytest

DOCS = pathlib.Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """Return the folder of the built site. One worker builds it, the others wait."""
    place = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        place = place.parent
    folder, done = place / "site", place / "site-done"
    try:
        folder.mkdir()
    except FileExistsError:
        while not done.exists():
            time.sleep(1)
    else:
        command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q"]
        command += ["-b", "html", "-d", str(place / "doctrees"), str(DOCS), str(folder)]
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        done.write_text(built.stderr if built.returncode else "", "utf-8")
    told = done.read_text("utf-8")
    assert not told, told[-3000:]
    return folder
