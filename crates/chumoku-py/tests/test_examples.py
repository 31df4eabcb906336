"""Runs the examples in the package's docstrings, in the READMEs and in `examples/python`."""

import doctest
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import chumoku

ROOT = pathlib.Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples" / "python"
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


@pytest.mark.parametrize("name", ["README.md", "README.ja.md"])
def test_readme(name, tmp_path):
    np, torch = pytest.importorskip("numpy"), pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    import tiny

    transformers.BertModel(tiny.config("bert")).save_pretrained(tmp_path)
    random = np.random.default_rng(0)
    query, key, value = (random.standard_normal((1, 2, 5, 8)).astype(np.float32) for _ in range(3))
    texts = [f"{word} {n}" for n in range(40) for word in ("good", "bad")]
    names = dict(query=query, key=key, value=value, folder=tmp_path, AutoModel=transformers.AutoModel, texts=texts)
    names |= dict(labels=["positive", "negative"] * 40)
    [example] = re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(encoding="utf-8"), re.DOTALL)
    try:
        exec(example, names)
    finally:
        chumoku.torch.deactivate()
    expected = torch.nn.functional.scaled_dot_product_attention(*map(torch.from_numpy, (query, key, value)), is_causal=True)
    np.testing.assert_allclose(names["output"], expected, atol=1e-5)
    assert names["model"].config._attn_implementation == "chumoku"
    assert names["classifier"].predict(["good 7", "bad 9"]).tolist() == ["positive", "negative"]
