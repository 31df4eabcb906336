"""Starts every artifact: natively, under qemu, or under Wine. Fails if one does not work as expected."""

import hashlib
import json
import os
import pathlib
import platform
import re
import shutil
import struct
import subprocess
import tarfile
import tempfile
import threading
import urllib.request
import zipfile

from . import archive, toolchain
from .toolchain import Impossible, output, run

SECONDS = 1800
# Enough rows to train on, and few enough for an emulator.
ROWS = 161
WHEEL = """
import sys, numpy as np, chumoku
q, k, v = (np.random.default_rng(n).standard_normal((1, 2, 40, 16), dtype=np.float32) for n in range(3))
scores = np.where(np.tri(40, dtype=bool), q @ k.swapaxes(-1, -2) / 4, -np.inf)
weights = np.exp(scores - scores.max(-1, keepdims=True))
expected = weights / weights.sum(-1, keepdims=True) @ v
assert np.allclose(chumoku.attention(q, k, v, causal="top_left"), expected, atol=1e-5)
texts = [f"{word} dish {n}" for n in range(60) for word in ("tasty", "awful")]
labels = ["good", "bad"] * 60
assert list(chumoku.TextClassifier(epochs=2).fit(texts, labels).predict(["tasty dish", "awful dish"])) == ["good", "bad"]
try:
    import torch
except ImportError:
    sys.exit(print("attention and a classifier work; no PyTorch here"))
import chumoku.torch
own = torch.nn.functional.scaled_dot_product_attention
a, b, c = map(torch.tensor, (q, k, v))
before = own(a, b, c, is_causal=True)
chumoku.torch.activate()
assert torch.nn.functional.scaled_dot_product_attention is not own
assert torch.allclose(torch.nn.functional.scaled_dot_product_attention(a, b, c, is_causal=True), before, atol=1e-5)
print("attention, a classifier and activate() work")
"""


def check(release, part):
    """Starts the artifacts of a part. Yields the reasons why some cannot be started here."""
    try:
        if part.startswith("wheel-"):
            yield from check_wheel(release, part.removeprefix("wheel-"))
        elif part == "source":
            yield from check_source(release)
        elif "-" in part:
            yield from check_program(release, part)
    except Impossible as reason:
        yield f"not started: {reason}"


def runner(target):
    """Returns the command that runs programs of a target here, and its environment."""
    here = toolchain.host()
    machine = target.split("-")[0]
    environment = {**os.environ, "LANG": "C.UTF-8"}
    environment.pop("LC_ALL", None)
    if target.replace("-gnu", "-musl") == here or target == here:
        return [], environment
    if "linux" in target and platform.system() == "Linux":
        for name in (f"qemu-{machine}-static", f"qemu-{machine}"):
            if shutil.which(name):
                return [name, "-cpu", "max"], environment
        raise Impossible(f"needs qemu-{machine}-static (Debian: qemu-user-static)")
    if "windows" in target and platform.system() == "Linux":
        wine = shutil.which("wine64") or shutil.which("wine") or shutil.which("wine64", path="/usr/lib/wine")
        if not wine:
            raise Impossible("needs Wine (Debian: wine64)")
        return [wine], {**environment, **wine_environment(wine)}
    raise Impossible("needs macOS" if "apple" in target else "needs another system")


def wine_environment(wine):
    """Creates a separate Wine prefix with the one library that Wine 8 lacks, and fonts for Japanese and for the symbol of
    spaces."""
    prefix = pathlib.Path(tempfile.gettempdir()) / f"chumoku-wine-{os.getuid()}"
    environment = {"WINEPREFIX": str(prefix), "WINEDEBUG": "-all", "WINEDLLOVERRIDES": "mscoree,mshtml="}
    system = prefix / "drive_c/windows/system32"
    if not system.exists():
        run(wine, "wineboot", "--init", env={**os.environ, **environment})
    library = system / "bcryptprimitives.dll"
    if not library.exists() and shutil.which("x86_64-w64-mingw32-gcc"):
        with tempfile.TemporaryDirectory() as folder:
            code = pathlib.Path(folder) / "random.c"
            code.write_text(
                "unsigned char __stdcall SystemFunction036(void *, unsigned long);\n"
                "__declspec(dllexport) int ProcessPrng(unsigned char *to, unsigned long long size) "
                "{ return SystemFunction036(to, (unsigned long)size); }\n"
            )
            run("x86_64-w64-mingw32-gcc", "-shared", "-O1", "-o", library, code, "-ladvapi32")
    for pattern in ("sans-serif:lang=ja", "sans-serif:charset=2581") if shutil.which("fc-match") else ():
        font = pathlib.Path(output("fc-match", "--format=%{file}", pattern))
        if font.is_file() and not (to := prefix / "drive_c/windows/Fonts" / font.name).exists():
            to.parent.mkdir(exist_ok=True)
            shutil.copyfile(font, to)
    return environment


class Program:
    """A released command in a separate folder."""

    def __init__(self, target, program, folder, isa=None):
        self.command, self.environment = runner(target)
        self.target, self.program, self.folder = target, program, folder
        if isa:
            self.environment["CHUMOKU_ISA"] = isa

    def run(self, *words):
        """Returns the output of the command."""
        print("+", *self.command, "chumoku", *words, flush=True)
        command = [*self.command, str(self.program), *words]
        done = subprocess.run(command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=SECONDS)
        printed, said = done.stdout.decode("utf-8"), done.stderr.decode("utf-8", "replace")
        if done.returncode != 0:
            raise SystemExit(f"error: {self.target}: chumoku {' '.join(words)} ended with {done.returncode}:\n{said[-2000:]}")
        return printed.replace("\r\n", "\n")

    def serve(self, model):
        """Requests the class of a text from the service once."""
        print("+", *self.command, "chumoku serve", model, flush=True)
        command = [*self.command, str(self.program), "serve", model, "--port", "0"]
        service = subprocess.Popen(command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, encoding="utf-8")
        timer = threading.Timer(SECONDS, service.kill)
        timer.start()
        try:
            lines = []
            for line in service.stderr:
                lines.append(line)
                if found := re.search(r"http://[\d.]+:\d+", line):
                    threading.Thread(target=service.stderr.read, daemon=True).start()
                    request = urllib.request.Request(found[0] + "/predict", json.dumps({"inputs": "Slow and cold."}).encode(),
                                                     {"Content-Type": "application/json"})
                    with urllib.request.urlopen(request, timeout=SECONDS) as answer:
                        return json.load(answer)
            raise SystemExit(f"error: {self.target}: chumoku serve ended without an address:\n{''.join(lines)[-2000:]}")
        finally:
            timer.cancel()
            service.kill()
            service.wait()


def check_program(release, target):
    """Trains, predicts, explains and serves with the command of an archive."""
    packed = next(iter(release.made(target)), None)
    if packed is None:
        yield "no archive of this commit to start"
        return
    # Only models made by programs of one commit must be the same.
    tried = release.out / ".made" / f"tried-{release.commit}" / target
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        unpack(packed, folder)
        (inside,) = folder.iterdir()
        program = inside / ("chumoku.exe" if "windows" in target else "chumoku")
        files = [program, inside / "THIRD-PARTY-LICENSES", inside / "sbom.cdx.json", inside / "man/chumoku-train.1",
                 inside / "completions/chumoku.bash", inside / "LICENSE-MIT"]
        expect(all(path.stat().st_size > 0 for path in files), f"{packed.name} lacks files")
        if "apple" in target:
            check_signature(program.read_bytes(), target)
        best = Program(target, program, folder)
        info = json.loads(best.run("info", "--json"))
        expect(info["version"] == release.version and info["target"] == target, f"{target}: info tells {info}")
        expect(info["commit"] == release.commit, f"{target}: the program is of commit {info['commit']}, not {release.commit}")
        if not best.command:
            best.run("train", "--epochs", "1", "--out", "built-in", "--threads", "2")
        # Scalar arithmetic gives the same bytes of a model on every platform.
        scalar = Program(target, program, folder, "scalar")
        lines = (repository() / "crates/chumoku/builtin/reviews.tsv").read_text("utf-8").splitlines(keepends=True)
        (folder / "rows.tsv").write_bytes("".join(lines[:ROWS]).encode())
        scalar.run("train", "rows.tsv", "--epochs", "2", "--out", "model")
        texts = ["I would buy it again tomorrow.", "Slow, cold and not worth the money.", "二度と行きません。"]
        predicted = scalar.run("predict", "model", *texts, "--json")
        expect(len(predicted.splitlines()) == len(texts), f"{target}: predict printed {predicted!r}")
        scalar.run("explain", "model", texts[1], "--html", "why.html")
        page = (folder / "why.html").read_bytes()
        expect(b"</html>" in page, f"{target}: explain wrote no page")
        answer = best.serve("model")
        expect({"label", "score"} <= set(answer[0]), f"{target}: serve answered {answer}")
        shutil.rmtree(tried, ignore_errors=True)
        shutil.copytree(folder / "model", tried / "model")
        (tried / "predicted.jsonl").write_text(predicted, "utf-8")
        (tried / "why.html").write_bytes(page)
        # Models of other platforms.
        for other in sorted(tried.parent.iterdir()):
            if other.name != target:
                same = scalar.run("predict", str(other / "model"), *texts, "--json") == (other / "predicted.jsonl").read_text("utf-8")
                expect(same, f"{target} reads the model of {other.name} and predicts otherwise")
                files = ", ".join(different(tried, other)) or "none"
                print(f"{target} predicts the same with the model of {other.name}; files with other bytes: {files}", flush=True)
        if not best.command and "linux" in target and os.getuid() == 0:
            check_alone(program, folder)
    print(f"{target}: works", flush=True)


def check_signature(data, target):
    """Compares the hashes of an ad-hoc signature with the program's pages. macOS on ARM requires them."""
    at, signature = 32, None
    for _ in range(struct.unpack_from("<I", data, 16)[0]):
        command, size, offset = struct.unpack_from("<III", data, at)
        signature = offset if command == 0x1D else signature
        at += size
    if signature is None:
        expect("aarch64" not in target, f"{target}: the program is not signed")
        return
    # The code directory is the first entry of the signature.
    directory = signature + struct.unpack_from(">I", data, signature + 16)[0]
    _, _, _, _, first, _, _, pages, limit, hash_size, _, _, page = struct.unpack_from(">9I4B", data, directory)
    for n in range(pages):
        expected = hashlib.sha256(data[n << page : min((n + 1) << page, limit)]).digest()
        found = data[directory + first + n * hash_size :][:hash_size]
        expect(found == expected, f"{target}: the signature does not fit page {n} of the program")


def check_alone(program, folder):
    """Runs the program as in deploy/Dockerfile: without other files and without privileges."""
    alone = folder / "alone"
    (alone / "model").mkdir(parents=True)
    shutil.copy(program, alone / "chumoku")
    shutil.copytree(folder / "model", alone / "model", dirs_exist_ok=True)
    for path in (folder, alone, *alone.rglob("*")):
        path.chmod(0o755)
    run("chroot", "--userspec=65534:65534", alone, "/chumoku", "predict", "/model", "Slow and cold.")


def check_wheel(release, target):
    """Imports a wheel, computes attention, and trains a classifier."""
    packed = next(iter(release.made(f"wheel-{target}")), None)
    if packed is None:
        yield "no wheel of this commit to import"
        return
    libc = "musl" if any(pathlib.Path("/lib").glob("ld-musl-*")) and not platform.libc_ver()[0] else "gnu"
    if "linux" in target and not target.endswith(libc) or target.replace("-gnu", "-musl") != toolchain.host().replace("-gnu", "-musl"):
        yield "not imported: no Python for this platform here"
        return
    # The interpreter of CHUMOKU_PYTHON, with NumPy and optionally PyTorch, or a new one with NumPy.
    python = os.environ.get("CHUMOKU_PYTHON")
    if not python:
        python = release.toolchain.python()
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "numpy")
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(packed) as wheel:
            wheel.extractall(folder)
        environment = {**os.environ, "PYTHONPATH": folder}
        run(python, "-c", WHEEL, cwd=folder, env=environment)
        run(python, "-m", "chumoku", "info", cwd=folder, env=environment)


def check_source(release):
    """Builds the source archive with an empty download cache and, if the system can forbid it, without a network."""
    packed = next(iter(release.made("source")), None)
    if packed is None:
        yield "no archive of this commit to build"
        return
    with tempfile.TemporaryDirectory() as folder:
        unpack(packed, pathlib.Path(folder))
        (inside,) = pathlib.Path(folder).iterdir()
        empty = pathlib.Path(folder) / "cargo-home"
        built = release.toolchain.builds / "source"
        offline = ["unshare", "--net", "--map-root-user"]
        if not shutil.which("unshare") or subprocess.run([*offline, "true"], stderr=subprocess.DEVNULL).returncode:
            offline = []
        environment = {**os.environ, "CARGO_HOME": str(empty), "CARGO_TARGET_DIR": str(built)}
        run(*offline, "cargo", "build", "--release", "--locked", "--offline", cwd=inside, env=environment)
        info = json.loads(output(built / "release" / ("chumoku.exe" if os.name == "nt" else "chumoku"), "info", "--json"))
        expect(info["commit"] == release.commit, f"the program from the source archive is of commit {info['commit']}")


def different(one, other):
    """Returns the files below two folders that differ."""
    names = {path.relative_to(folder).as_posix() for folder in (one, other) for path in folder.rglob("*") if path.is_file()}
    exist = {name for name in names if (one / name).exists() and (other / name).exists()}
    return sorted(name for name in names if name not in exist or archive.sha256(one / name) != archive.sha256(other / name))


def unpack(packed, folder):
    """Unpacks an archive of any kind."""
    if packed.suffix == ".zip":
        with zipfile.ZipFile(packed) as archive_:
            archive_.extractall(folder)
    else:
        with tarfile.open(packed) as archive_:
            archive_.extractall(folder, filter="tar")


def repository():
    """Returns the root of the repository."""
    return pathlib.Path(__file__).resolve().parent.parent.parent


def expect(holds, otherwise):
    """Ends the run if a condition does not hold."""
    if not holds:
        raise SystemExit(f"error: {otherwise}")
