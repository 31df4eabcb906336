"""Examples run, in the package's documentation and in `examples/python`."""

import doctest
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import chumoku

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "examples" / "python"
NEEDS = {"activate": ["torch"], "transformers_model": ["torch", "transformers"], "spark": ["pyspark", "pyarrow"]}


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_examples_run(path, tmp_path):
    for library in NEEDS.get(path.stem, []):
        if importlib.util.find_spec(library) is None:
            pytest.skip(f"SKIPPED: no {library} here")
    if path.stem == "spark" and not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        pytest.skip("SKIPPED: no Java for Spark here")
    found = subprocess.run([sys.executable, str(path)], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stderr
    assert found.stdout.strip()


def test_there_are_examples():
    assert len(list(EXAMPLES.glob("*.py"))) >= 3


def test_documentation():
    pytest.importorskip("numpy")
    failed, tried = doctest.testmod(chumoku)
    assert tried >= 4 and failed == 0
