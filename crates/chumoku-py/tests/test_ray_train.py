"""Training on a Ray cluster gives the model of one process, byte for byte, for any workers and failures."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

np = pytest.importorskip("numpy")
ray = pytest.importorskip("ray", reason="Ray is not installed, so no cluster was tried")

from chumoku import ray as chumoku_ray  # noqa: E402
from chumoku.ray import _coordinator, _messages, _train, _worker  # noqa: E402

# Number of workers to kill, one after another, during training.
KILLS = int(os.environ.get("CHUMOKU_KILLS", "3"))

COMMAND = [sys.executable, "-m", "chumoku"]
ON_RAY = [sys.executable, "-m", "chumoku.ray", "train"]


def run(*words, **more):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=300, **more)


def model(folder):
    return (folder / "model.safetensors").read_bytes()


def write(path, n):
    good, bad = ["kind", "fresh", "clean", "warm"], ["cold", "slow", "loud", "stale"]
    draw = random.Random(7)
    lines = ["text,label"]
    for i in range(n):
        words = draw.choices(good if i % 2 else bad, k=3) + draw.choices(["the", "a", "soup", "room", "staff"], k=5)
        draw.shuffle(words)
        lines.append(f"{' '.join(words)} {i},{'good' if i % 2 else 'bad'}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """A cluster that the commands join. Without RAY_ADDRESS, each starts one of its own, which takes longer than training."""
    context = ray.init(address="local", num_cpus=4, include_dashboard=False, object_store_memory=200 << 20, logging_level="ERROR")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_ADDRESS", context.address_info["address"])
        yield
    ray.shutdown()


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """A file of rows, and the model that one process trains on it with four micro-batches a batch."""
    folder = tmp_path_factory.mktemp("rows")
    path = write(folder / "rows.csv", 1300)
    flags = ["--epochs", "3", "--parts", "4"]
    made = run(*COMMAND, "train", path, *flags, "--out", folder / "alone", "--threads", "2")
    assert made.returncode == 0, made.stderr
    return path, flags, model(folder / "alone")


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_the_model_matches_a_single_process(rows, tmp_path, workers, monkeypatch):
    path, flags, alone = rows
    # More workers than most machines of tests have cores.
    if workers == 4:
        monkeypatch.delenv("RAY_ADDRESS")
    lang = "ja" if workers == 3 else "en"
    made = run(*ON_RAY, path, *flags, "--workers", workers, "--out", tmp_path / "model", "--json", "--lang", lang)
    assert made.returncode == 0, made.stderr
    assert model(tmp_path / "model") == alone
    assert json.loads(made.stdout)["seed"] == 42
    assert (f"{workers} of {workers}" if lang == "en" else f"ワーカー 1 が加わりました: {workers} のうち") in made.stderr
    assert re.search(r"ms a step, .* % of it waiting" if lang == "en" else r"1 ステップ .* ms、うち待ち", made.stderr)


def worker_processes():
    """Returns the process ids of the workers by name."""
    found = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True).stdout
    return [int(line.split()[0]) for line in found.splitlines() if "ray::TrainWorker" in line]


def test_workers_killed_at_random_change_nothing(rows, tmp_path):
    _, flags, _ = rows
    # Enough steps to kill all workers during the run.
    path = write(tmp_path / "rows.csv", max(1300, 200 * KILLS))
    flags = ["--epochs", "30", *flags[2:]]
    longer = run(*COMMAND, "train", path, *flags, "--out", tmp_path / "alone", "--threads", "2")
    assert longer.returncode == 0, longer.stderr
    command = [*ON_RAY, path, *flags, "--workers", 2, "--out", tmp_path / "model"]
    # The first one is certainly killed: the run is held after its third step until then.
    hold = tmp_path / "hold"
    hold.touch()
    env = os.environ | {"CHUMOKU_FAILPOINT": f"step:3=hold:{hold}"}
    process = subprocess.Popen([str(word) for word in command], stderr=subprocess.PIPE, text=True, env=env)
    said = []
    listener = threading.Thread(target=lambda: said.extend(process.stderr))
    listener.start()
    draw, killed = random.Random(3), 0
    until = time.monotonic() + 300 + 120 * KILLS
    while not hold.read_text() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    for pid in draw.sample(running := worker_processes(), min(1, len(running))):
        os.kill(pid, signal.SIGKILL)
        killed += 1
    hold.unlink()
    while process.poll() is None and time.monotonic() < until:
        time.sleep(draw.uniform(0.2, 1.5))
        # Kills the next one after the previous one was replaced.
        if killed < KILLS and "".join(said).count("joins") >= 2 + killed:
            for pid in draw.sample(running := worker_processes(), min(1, len(running))):
                os.kill(pid, signal.SIGKILL)
                killed += 1
    assert process.wait(60) == 0, "".join(said)
    listener.join()
    # A run may end before the last kill. If CHUMOKU_KILLS is set, all kills must happen.
    assert killed >= (KILLS if "CHUMOKU_KILLS" in os.environ else 1), (killed, "".join(said))
    assert "".join(said).count("is gone") == killed, (killed, "".join(said))
    assert model(tmp_path / "model") == model(tmp_path / "alone")


@pytest.mark.skipif("CHUMOKU_CLUSTER" not in os.environ, reason="SKIPPED: takes minutes; set CHUMOKU_CLUSTER=1")
def test_a_cluster_grows_and_shrinks(rows, tmp_path):
    from ray.cluster_utils import Cluster

    path, flags, _ = rows
    flags = ["--epochs", "30", *flags[2:]]
    longer = run(*COMMAND, "train", path, *flags, "--out", tmp_path / "alone", "--threads", "2")
    assert longer.returncode == 0, longer.stderr
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
        command = [*ON_RAY, path, *flags, "--workers", "4", "--address", cluster.address, "--out", tmp_path / "model"]
        process = subprocess.Popen([str(word) for word in command], stderr=subprocess.PIPE, text=True)
        said = []
        listener = threading.Thread(target=lambda: said.extend(process.stderr))
        listener.start()

        def wait_for(words, times=1):
            until = time.monotonic() + 240
            while "".join(said).count(words) < times and process.poll() is None and time.monotonic() < until:
                time.sleep(0.1)
            assert "".join(said).count(words) >= times, "".join(said)

        wait_for("2 of 4")
        nodes += [cluster.add_node(num_cpus=1) for _ in range(2)]
        wait_for("4 of 4")
        for gone in range(3):
            cluster.remove_node(nodes.pop(0), allow_graceful=False)
            wait_for("is gone", gone + 1)
        assert "1 left" in "".join(said)
        assert process.wait(240) == 0, "".join(said)
        listener.join()
        assert model(tmp_path / "model") == model(tmp_path / "alone")
    finally:
        cluster.shutdown()


def test_a_worker_with_another_instruction_set_is_rejected(rows, tmp_path):
    path, flags, _ = rows
    code = """
import sys
from chumoku.ray import _train
make = _train.Coordinator.__init__
_train.Coordinator.__init__ = lambda self, *words: make(self, *words[:-1], {"CHUMOKU_ISA": "scalar"})
sys.exit(_train.main(sys.argv[1:]))
"""
    made = run(sys.executable, "-c", code, path, *flags, "--workers", 1, "--out", tmp_path / "model")
    assert made.returncode == 2, made.stderr
    assert "no worker is left: the instruction set is scalar on the worker" in made.stderr, made.stderr
    assert not (tmp_path / "model" / "model.safetensors").exists()


def test_training_from_python(rows, tmp_path):
    path, _, alone = rows
    metrics = chumoku_ray.train(path, out=tmp_path / "model", workers=2, epochs=3, parts=4)
    assert metrics["rows"]["train"] == 1040
    assert model(tmp_path / "model") == alone
    with pytest.raises(RuntimeError, match="finished model"):
        chumoku_ray.train(path, out=tmp_path / "model", workers=1, epochs=3)


def test_small_data_is_trained_by_the_coordinator_alone(tmp_path):
    path = write(tmp_path / "few.csv", 200)
    made = run(*ON_RAY, path, "--epochs", "1", "--workers", 2, "--out", tmp_path / "model")
    assert made.returncode == 0 and "this process trains alone" in made.stderr, made.stderr
    assert "joins" not in made.stderr and "ms a step" not in made.stderr, made.stderr
    alone = run(*COMMAND, "train", path, "--epochs", "1", "--out", tmp_path / "alone")
    assert alone.returncode == 0 and model(tmp_path / "model") == model(tmp_path / "alone"), alone.stderr


def test_unshareable_runs_are_rejected(rows, tmp_path):
    path, _, _ = rows
    for flags, words in [
        (["--tune", "3"], "--settings that it prints"),
        (["--folds=3"], "in one process"),
        (["--model", "ngrams"], "no steps to share"),
        (["--workers", "0"], "from 1"),
        (["--max-failures", "few"], "-1 for any number, found few"),
        (["--folds=3", "--lang", "ja"], "交差検証"),
        (["--unlabelled", path], "--task mlm"),
    ]:
        made = run(*ON_RAY, path, *flags, "--out", tmp_path / "model")
        assert made.returncode == 2 and words in made.stderr, (flags, made.stderr)
        assert not (tmp_path / "model").exists()


def test_a_worker_that_cannot_read_the_data_ends_the_run(tmp_path):
    made = run(*ON_RAY, tmp_path / "nothing.csv", "--workers", 1, "--out", tmp_path / "model")
    assert made.returncode == 2 and "nothing.csv" in made.stderr, made.stderr


def test_workers_must_agree_with_the_coordinator():
    ours = {"version": "1", "instruction_set": "avx512", "precision": "medium", "fingerprint": "a", "numbers": 3}
    assert _coordinator.difference(ours, dict(ours), _messages.english) is None
    for key, value, words in [
        ("version", "2", "install the same"),
        ("instruction_set", "avx2", "CHUMOKU_ISA=avx2"),
        ("instruction_set", "amx", "CHUMOKU_ISA=avx512"),
        ("precision", "high", "--precision"),
        ("fingerprint", "b", "the same files under the same names"),
    ]:
        assert words in _coordinator.difference(ours, {**ours, key: value}, _messages.english)
        assert "ください" in _coordinator.difference(ours, {**ours, key: value}, _messages.japanese)


def test_workers_get_only_their_own_flags():
    words = ["rows.csv", "--out", "x", "--epochs", "3", "--json", "--watch=a b", "--force", "--threads", "8"]
    assert _train._worker_args(words, 2) == ["rows.csv", "--epochs", "3", "--threads", "2"]


def test_gradients_are_summed_as_in_one_process():
    from chumoku._chumoku import joined_gradients

    draw = np.random.default_rng(5)
    grads = [draw.normal(size=1000).astype(np.float32) for _ in range(3)]
    outputs = [(1.0, 3.0, 10), (2.0, 1.0, 20), (4.0, 4.0, 30)]
    shares = [np.float32(weight / 8) for _, weight, _ in outputs]
    whole = np.empty(1000, dtype=np.float32)
    whole_output = joined_gradients(outputs, [_worker.memory_of(grad) for grad in grads], _worker.memory_of(whole))
    assert whole_output == (1.0 * 3 / 8 + 2.0 / 8 + 4.0 * 4 / 8, 8.0, 60)
    assert np.allclose(whole, sum(share * grad for share, grad in zip(shares, grads)), rtol=1e-6, atol=1e-6)
    pieces = np.empty(1000, dtype=np.float32)
    for start, stop in [(0, 333), (333, 334), (334, 1000)]:
        joined_gradients(outputs, [_worker.memory_of(g[start:stop]) for g in grads], _worker.memory_of(pieces[start:stop]))
    assert (pieces == whole).all()
    with pytest.raises(ValueError, match="expected"):
        joined_gradients(outputs, [_worker.memory_of(grads[0])], _worker.memory_of(whole))
