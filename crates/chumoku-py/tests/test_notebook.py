"""Runs the example notebook, and opens its output in a browser."""

import html
import pathlib
import re
import shutil
import subprocess

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")
pytest.importorskip("numpy")

NOTEBOOK = pathlib.Path(__file__).resolve().parents[3] / "examples" / "python" / "tour.ipynb"


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """The output of each code cell, as HTML or text."""
    notebook = nbformat.read(NOTEBOOK, 4)
    folder = tmp_path_factory.mktemp("notebook")
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    found = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            shown = [output.data for output in cell.outputs if output.output_type in ("display_data", "execute_result")]
            found.append(shown[-1] if shown else {})
    return found


def test_notebook_outputs(outputs):
    model, why, page, weights, check, count = outputs
    assert "TextClassifier(epochs=2)" in model["text/html"] and "accuracy" in model["text/html"]
    assert "rgba(" in why["text/html"] and len(why["text/html"]) < 100_000 and "<script" not in why["text/html"]
    assert 'sandbox="allow-scripts"' in page["text/html"]
    assert "array([[" in weights["text/plain"]
    assert "0.6682" in check["text/html"] and "parameters" in count["text/html"]


def test_the_page_opens_in_a_browser(outputs, tmp_path):
    browser = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("no Chromium here, so the page of a notebook was not opened")
    shown = outputs[2]["text/html"]

    def screenshot(name, content):
        (tmp_path / f"{name}.html").write_text(f"<!doctype html><meta charset=utf-8><body>{content}</body>")
        words = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1200,800", "--virtual-time-budget=10000"]
        words += [f"--user-data-dir={tmp_path / 'profile'}", f"--screenshot={tmp_path / name}.png", f"file://{tmp_path / name}.html"]
        subprocess.run(words, check=True, capture_output=True, timeout=120)
        return (tmp_path / f"{name}.png").stat().st_size

    # A script draws the page: without permission to run scripts, the frame stays nearly empty.
    without = screenshot("without", shown.replace("allow-scripts", ""))
    # On a busy machine, a browser may take its screenshot before the frame is drawn.
    drawn = max(screenshot("page", shown) for _ in range(3))
    assert drawn > 1.5 * without, (drawn, without)
    # The frame contains the page itself.
    source = html.unescape(re.search(r'srcdoc="([^"]*)"', shown).group(1))
    assert source.lstrip().lower().startswith("<!doctype html>") and "The soup was fresh" in source
