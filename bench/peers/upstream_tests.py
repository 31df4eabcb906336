"""Runs the attention tests of PyTorch and of transformers on Chumoku's kernels.

    python upstream_tests.py --pytorch CHECKOUT --transformers CHECKOUT [--models bert,llama,t5] [--only WORD]

A CHECKOUT is a folder with the repository at the installed version; nothing is downloaded. Give one of them or both.
PyTorch's tests are `test_transformers.py`, `nn/test_multihead_attention.py` and the attention tests of `test_nn.py`.
The tests of transformers are the attention tests of the named models (all without `--models`).

Each file runs without Chumoku and with `chumoku.torch.activate()`. The files of transformers also run with the function
of `attn_implementation="chumoku"` instead of "sdpa". A difference is a test that passes without Chumoku and fails with
it, in two runs of each. The exit code is 1 for a difference that `KNOWN` does not list, for an entry of `KNOWN` that
passes, and for a file that pytest cannot run.

PyTorch's tests need `expecttest` and `hypothesis`. The tests of transformers need `parameterized`, `pytest-xdist`,
`pytest-timeout` and `httpx`. """

import argparse
import collections
import os
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

# Tests that pass with PyTorch's own kernels and fail with ours, each with the reason.
KNOWN: dict[str, str] = {}

# Plugins of pytest that make tests use the kernels.
PLUGINS = {
    "activate": """
import chumoku.torch

chumoku.torch.activate()
""",
    "register": """
import chumoku.transformers
from transformers import AttentionInterface, AttentionMaskInterface

chumoku.transformers.register()
# The tests name "sdpa".
for interface in AttentionInterface, AttentionMaskInterface:
    interface.register("sdpa", interface()["chumoku"])
""",
}

ATTENTION = "attention or attn or sdpa or sdp or transformer"

# One call of pytest: its name, files, flags, working directory, plugins, and the time limit in seconds.
Run = collections.namedtuple("Run", "what tests flags folder plugins limit")


def outcomes(run, tests, plugin):
    """Returns the outcome of each test by its name: "passed", "failed" or "skipped"."""
    with tempfile.TemporaryDirectory() as place:
        report = pathlib.Path(place) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={run.folder}"]
        command += [f"--junitxml={report}", "-o", "junit_family=xunit1", *run.flags, *tests]
        if plugin is not None:
            (pathlib.Path(place) / "chumoku_plugin.py").write_text(PLUGINS[plugin])
            command[3:3] = ["-p", "chumoku_plugin"]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, [place, os.environ.get("PYTHONPATH")])),
            "PYTORCH_TESTING_DEVICE_ONLY_FOR": "cpu",
            "CUDA_VISIBLE_DEVICES": "",
            "HF_HUB_OFFLINE": "1",
        }
        try:
            ended = subprocess.run(
                command, cwd=run.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=run.limit
            )
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"no end after {run.limit:g} seconds; give --only for fewer tests, or a longer --limit") from None
        if ended.returncode == 5:
            # No test of the file matches the expression.
            return {}
        if ended.returncode not in (0, 1) or not report.exists():
            raise RuntimeError(f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stdout[-3000:]}")
        found = {}
        for case in xml.etree.ElementTree.parse(report).iter("testcase"):
            kinds = {child.tag for child in case}
            outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
            found[f"{case.get('file')}::{case.get('classname').rpartition('.')[2]}::{case.get('name')}"] = outcome
        return found


def compare(run, only):
    """Returns the tests of one run that pass without Chumoku, and those of them that differ, each with the name of the plugin."""
    tests = [*run.tests, "-k", only] if only else run.tests
    plain, differ = outcomes(run, tests, None), []
    passed = [name for name, outcome in plain.items() if outcome == "passed"]
    for plugin in run.plugins if plain else ():
        ours = outcomes(run, tests, plugin)
        found = [name for name in passed if ours.get(name) != "passed"]
        if found:
            # Some tests draw inputs without a seed and fail now and then.
            again, ours_again = outcomes(run, found, None), outcomes(run, found, plugin)
            found = [name for name in found if again.get(name) == "passed" != ours_again.get(name)]
        differ += [f"{name} ({plugin})" for name in found]
        pairs = collections.Counter((outcome, ours.get(name)) for name, outcome in plain.items())
        alike = [f"{pairs[outcome, outcome]} {outcome}" for outcome in ("passed", "failed", "skipped")]
        print(f"{run.what}, {plugin}: with and without Chumoku {', '.join(alike)}; {len(found)} differ", flush=True)
    return [f"{name} ({plugin})" for name in passed for plugin in run.plugins], differ


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pytorch", type=pathlib.Path, help="a checkout of PyTorch")
    parser.add_argument("--transformers", type=pathlib.Path, help="a checkout of transformers")
    parser.add_argument("--models", help="the folders of tests/models to run, with commas; all if absent")
    parser.add_argument("--only", help="tests with this expression of pytest (-k) alone")
    parser.add_argument("--limit", type=float, default=3600, help="seconds that pytest may take for one file (default %(default)g)")
    arguments = parser.parse_args()
    runs = []
    if arguments.pytorch is not None:
        # The working directory is not the checkout, whose folder `torch` has no built modules. Its conftest.py needs an older pytest.
        folder = arguments.pytorch.resolve() / "test"
        for file, only in (("test_transformers.py", None), ("nn/test_multihead_attention.py", None), ("test_nn.py", ATTENTION)):
            if (folder / file).exists():
                runs.append((Run(f"PyTorch, {file}", [file], ["--noconftest"], folder, ["activate"], arguments.limit), only))
    if arguments.transformers is not None:
        folder = arguments.transformers.resolve()
        models = folder / "tests" / "models"
        names = arguments.models.split(",") if arguments.models else sorted(path.name for path in models.glob("*"))
        for name in names:
            files = [str(path.relative_to(folder)) for path in sorted((models / name).glob("test_modeling_*.py"))]
            if files:
                run = Run(f"transformers, {name}", files, [], folder, ["activate", "register"], arguments.limit)
                runs.append((run, ATTENTION))
    if not runs:
        parser.error("expected --pytorch or --transformers, with a checkout that has tests")
    passed, differ, failures = [], [], 0
    for run, only in runs:
        try:
            for all_found, found in zip((passed, differ), compare(run, arguments.only or only)):
                all_found += found
        except RuntimeError as error:
            # Other files still run.
            print(f"error: {run.what}: {error}", flush=True)
            failures += 1
    if not passed:
        sys.exit("error: no test passes as it is; are these checkouts of the versions that are installed?")
    new = [name for name in differ if name not in KNOWN]
    gone = [name for name in KNOWN if name in passed and name not in differ]
    for name in new:
        print(f"differs: {name}")
    for name in gone:
        print(f"differs no more, leave it out of KNOWN: {name}")
    sys.exit(bool(new or gone or failures))


if __name__ == "__main__":
    main()
