"""The command in the wheel: `chumoku` and `python -m chumoku`."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

MODULE = [sys.executable, "-m", "chumoku"]
SCRIPT = [str(pathlib.Path(sys.executable).parent / "chumoku")]


def run(command, *arguments, **keywords):
    return subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=120, **keywords)


@pytest.mark.parametrize("command", [MODULE, SCRIPT])
def test_the_command_is_installed(command):
    found = run(command, "--version")
    assert found.returncode == 0 and found.stdout.startswith("chumoku ")
    assert run(command, "train", "--help").stdout.count("--epochs") >= 1


def test_exit_codes_and_messages(tmp_path):
    found = run(MODULE, "predict", "nowhere", "text", cwd=tmp_path)
    assert found.returncode == 2 and "nowhere" in found.stderr and found.stdout == ""
    assert run(MODULE, "dance", cwd=tmp_path).returncode == 2
    assert "エラー" in run(MODULE, "--lang", "ja", "predict", "nowhere", "text", cwd=tmp_path).stderr


def test_training_and_predicting(tmp_path):
    rows = "".join(f"{'good' if i % 2 else 'bad'} thing {i},{'yes' if i % 2 else 'no'}\n" for i in range(60))
    (tmp_path / "rows.csv").write_text("text,label\n" + rows)
    assert run(MODULE, "train", "rows.csv", "--out", "model", "--epochs", "2", cwd=tmp_path).returncode == 0
    # Input through a pipe.
    found = run(MODULE, "predict", "model", cwd=tmp_path, input="good thing\nbad thing\n")
    assert found.returncode == 0 and len(found.stdout.splitlines()) >= 2


def test_a_regression_folder_is_named_in_the_error(tmp_path):
    import chumoku

    rows = "".join(f"{i % 5},{'good ' * (i % 5)}thing {i}\n" for i in range(60))
    (tmp_path / "rows.csv").write_text("stars,text\n" + rows)
    assert run(MODULE, "train", "rows.csv", "--out", "model", "--epochs", "1", cwd=tmp_path).returncode == 0
    with pytest.raises(ValueError, match="got one for TextRegressor"):
        chumoku.TextClassifier.load(tmp_path / "model")


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
def test_ctrl_c_saves_the_model(tmp_path):
    rows = "".join(f"{'good' if i % 2 else 'bad'} thing {i},{'yes' if i % 2 else 'no'}\n" for i in range(400))
    (tmp_path / "rows.csv").write_text("text,label\n" + rows)
    # Training is held after its third step until the signal arrives.
    hold = tmp_path / "hold"
    hold.touch()
    env = os.environ | {"CHUMOKU_FAILPOINT": f"step:3=hold:{hold}"}
    words = [*MODULE, "train", "rows.csv", "--out", "model", "--epochs", "20"]
    process = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=env)
    while not hold.read_text():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    said = ""
    while "stopping after this step" not in said:
        said += process.stderr.readline() or pytest.fail(said)
    hold.unlink()
    said += process.communicate(timeout=300)[1]
    assert process.returncode == 130, said
    assert (tmp_path / "model" / "model.safetensors").exists()


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
def test_ctrl_c_ends_a_waiting_command(tmp_path):
    rows = "".join(f"{'good' if i % 2 else 'bad'} thing {i},{'yes' if i % 2 else 'no'}\n" for i in range(60))
    (tmp_path / "rows.csv").write_text("text,label\n" + rows)
    assert run(MODULE, "train", "rows.csv", "--out", "model", "--epochs", "1", cwd=tmp_path).returncode == 0
    process = subprocess.Popen([*MODULE, "predict", "model"], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdin.write(b"good thing\n")
    process.stdin.flush()
    # After this answer, the command waits for more input.
    assert process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=300)
    assert process.returncode in (-signal.SIGINT, 130)
