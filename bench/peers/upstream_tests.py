"""The attention tests of PyTorch and of transformers, run on Chumoku's kernels.

    python upstream_tests.py --pytorch CHECKOUT --transformers CHECKOUT [--models bert,llama,t5] [--only WORD]

A CHECKOUT is a folder with the repository at the version that is installed; nothing is fetched. Give one of them or both. Of PyTorch
`test/test_transformers.py` and the tests of attention in `test/test_nn.py` run, of transformers the tests of attention of the models
that are named (all without `--models`). Each file runs twice: as it is, and with `chumoku.torch.activate()` and
`chumoku.transformers.register()`. A test that passes as it is and fails with Chumoku is a difference. Prints each difference that
`KNOWN` does not list, each that it lists and that is none any more, and ends with exit code 1 if there is any.
"""

import argparse
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import xml.etree.ElementTree

# Tests that pass with PyTorch's own kernels and fail with ours, with the reason.
KNOWN: dict[str, str] = {}

# A plugin of pytest that puts the kernels behind PyTorch's function.
PLUGIN = """
import chumoku.torch

chumoku.torch.activate()
with __import__("contextlib").suppress(ImportError):
    import chumoku.transformers

    chumoku.transformers.register()
"""

ATTENTION = "attention or attn or sdpa or sdp or transformer"


def outcomes(arguments, folder, is_active, place):
    """The outcome of each test: "passed", "failed" or "skipped"."""
    report = pathlib.Path(place) / f"report-{is_active}.xml"
    (pathlib.Path(place) / "chumoku_active.py").write_text(textwrap.dedent(PLUGIN))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *arguments]
    if is_active:
        command[3:3] = ["-p", "chumoku_active"]
    paths = [place, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "PYTORCH_TESTING_DEVICE_ONLY_FOR": "cpu",
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
    }
    ended = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if ended.returncode == 5:
        # No test of the file is among those that were asked for.
        return {}
    if not report.exists():
        sys.exit(f"error: {' '.join(command)}: ended with {ended.returncode} and no report:\n{ended.stdout[-2000:]}")
    found = {}
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        found[f"{case.get('classname')}::{case.get('name')}"] = outcome
    return found


def compare(what, arguments, folder):
    """The tests of one file that differ, by name."""
    with tempfile.TemporaryDirectory() as place:
        plain = outcomes(arguments, folder, False, place)
        ours = outcomes(arguments, folder, True, place)
    passed = [name for name, outcome in plain.items() if outcome == "passed"]
    differ = [name for name in passed if ours.get(name) != "passed"]
    print(f"{what}: {len(passed)} of {len(plain)} tests pass as they are, {len(passed) - len(differ)} of these with Chumoku", flush=True)
    return passed, differ


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pytorch", type=pathlib.Path, help="a checkout of PyTorch")
    parser.add_argument("--transformers", type=pathlib.Path, help="a checkout of transformers")
    parser.add_argument("--models", help="the folders of tests/models to run, with commas; all if absent")
    parser.add_argument("--only", help="tests with this expression of pytest (-k) alone")
    arguments = parser.parse_args()
    runs = []
    only = ["-k", arguments.only] if arguments.only else []
    if arguments.pytorch is not None:
        folder = arguments.pytorch / "test"
        runs.append(("PyTorch, test_transformers.py", ["test_transformers.py", *only], folder))
        runs.append(("PyTorch, test_nn.py", ["test_nn.py", *(only or ["-k", ATTENTION])], folder))
    if arguments.transformers is not None:
        models = arguments.transformers / "tests" / "models"
        with contextlib.suppress(FileNotFoundError):
            known = sorted(path.name for path in models.iterdir() if any(path.glob("test_modeling_*.py")))
            for name in arguments.models.split(",") if arguments.models else known:
                files = [f"tests/models/{name}/{path.name}" for path in sorted((models / name).glob("test_modeling_*.py"))]
                runs.append((f"transformers, {name}", [*files, *(only or ["-k", ATTENTION])], arguments.transformers))
    if not runs:
        parser.error("expected --pytorch or --transformers, with a checkout that has tests")
    passed, differ = [], []
    for run in runs:
        for all_found, found in zip((passed, differ), compare(*run)):
            all_found += found
    if not passed:
        sys.exit("error: no test passes as it is; are these checkouts of the versions that are installed?")
    new = [name for name in differ if name not in KNOWN]
    gone = [name for name in KNOWN if name in passed and name not in differ]
    for name in new:
        print(f"differs: {name}")
    for name in gone:
        print(f"differs no more, leave it out of KNOWN: {name}")
    sys.exit(bool(new or gone))


if __name__ == "__main__":
    main()
