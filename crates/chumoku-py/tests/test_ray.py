"""`chumoku.ray`: workers answer datasets and files, and one worker is killed."""

import csv
import filecmp
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

ray = pytest.importorskip("ray", reason="SKIPPED: no ray here")
pa = pytest.importorskip("pyarrow", reason="SKIPPED: no pyarrow here")
pytest.importorskip("ray.data", reason="SKIPPED: no ray[data] here")

import chumoku.ray  # noqa: E402
from chumoku import arrow  # noqa: E402
from chumoku.ray import _chunks, _cluster, _command, _messages  # noqa: E402
from test_arrow import TEXTS, command, models  # noqa: E402, F401


@pytest.fixture(scope="module")
def cluster():
    os.environ.setdefault("RAY_DEDUP_LOGS", "0")
    # Ray gives pyarrow one thread for a task with one core. That would hide a reader or writer that changes the order
    # of rows.
    os.environ.setdefault("OMP_NUM_THREADS", "4")
    ray.init(address="local", num_cpus=2, include_dashboard=False, object_store_memory=200 << 20, logging_level="ERROR")
    yield pathlib.Path(ray._private.worker._global_node.get_session_dir_path())
    ray.shutdown()


def rows(n):
    return [{"id": i, "text": f"{TEXTS[i % 5]} Number {i}." if i % 97 else None} for i in range(n)]


def plain(model, n):
    return arrow.predict(model)(pa.Table.from_pylist(rows(n), schema=pa.schema([("id", pa.int64()), ("text", pa.string())])))


def workers(session):
    """Returns the process ids of this cluster's answering actors."""
    found = []
    for place in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            name = (place / "cmdline").read_text()
            parent = (place / "status").read_text().split("PPid:")[1].split()[0]
            if name.startswith("ray::") and "MapWorker" in name and str(session) in pathlib.Path(f"/proc/{parent}/cmdline").read_text():
                found.append(int(place.name))
        except (OSError, IndexError):
            continue
    return found


def kill_one(session, killed):
    """Kills a worker as soon as one exists."""
    for _ in range(3600):
        there = workers(session)
        if there:
            os.kill(there[0], signal.SIGKILL)
            killed.append(there[0])
            return
        time.sleep(0.05)


def write(place, form, n):
    table = pa.Table.from_pylist(rows(n), schema=pa.schema([("id", pa.int64()), ("text", pa.string())]))
    if form == "parquet":
        import pyarrow.parquet

        pyarrow.parquet.write_table(table, place, row_group_size=500)
    elif form == "csv":
        with open(place, "w", newline="") as file:
            csv.writer(file).writerows([table.column_names, *zip(*(column.to_pylist() for column in table))])
    else:
        place.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


@pytest.mark.skipif(sys.platform != "linux", reason="SKIPPED: processes are found in /proc")
@pytest.mark.parametrize("form", ["parquet", "csv", "json"])
def test_input_and_output_formats_keep_the_order(cluster, models, tmp_path, form):  # noqa: F811
    for name in "abc":
        write(tmp_path / f"{name}.{form}", form, 700)
    given = getattr(ray.data, f"read_{form}")([str(tmp_path / f"{name}.{form}") for name in "abc"], include_paths=True)
    before = ray.data.DataContext.get_current().execution_options.preserve_order
    answered = chumoku.ray.predict(given, models / "classes", workers=2, batch_size=64)
    if form == "parquet":
        chumoku.ray.write_parquet(answered, tmp_path / "out")
    else:
        getattr(answered, f"write_{form}")(str(tmp_path / "out"))
    assert ray.data.DataContext.get_current().execution_options.preserve_order == before
    found = []
    for file in sorted((tmp_path / "out").iterdir()):
        read = getattr(ray.data, f"read_{form}")(str(file))
        found += read.take_all()
    expected = plain(models / "classes", 700).to_pylist() * 3
    assert [row["id"] for row in found] == [row["id"] for row in expected]
    # CSV has no nulls.
    assert [row["label"] or None for row in found] == [row["label"] for row in expected]
    assert [row["probability"] for row in found] == [row["probability"] for row in expected]
    errors = [row["error"] for row in found if row["error"]]
    assert len(errors) == 3 * 8
    what = "some characters, got an empty text" if form == "csv" else "a text, got nothing (null)"
    assert errors[0] == f"{tmp_path}/a.{form}: expected {what}"


def test_parquet_files_keep_the_order_of_rows(cluster, tmp_path):
    import pyarrow.parquet

    n, each = 100_000, 200
    texts = {f"text {k}": [f"Some text {i}." for i in range(each)] for k in range(4)}
    given = ray.data.from_arrow([pa.table({"id": range(at, at + each), **texts}) for at in range(0, n, each)])
    before = given.context.execution_options.preserve_order
    chumoku.ray.write_parquet(given, tmp_path / "files", min_rows_per_file=10_000, compression="zstd", row_group_size=700)
    files = sorted((tmp_path / "files").iterdir())
    assert 1 < len(files) <= 10 and given.context.execution_options.preserve_order == before
    assert pa.concat_tables(map(pyarrow.parquet.read_table, files))["id"].to_pylist() == list(range(n))
    group = pyarrow.parquet.ParquetFile(files[0]).metadata.row_group(0)
    assert group.num_rows == 700 and group.column(0).compression == "ZSTD"
    with pytest.raises(TypeError, match="loudness"):
        chumoku.ray.write_parquet(given, tmp_path / "none", loudness=3)
    with pytest.raises(ValueError, match="min_rows_per_file"):
        chumoku.ray.write_parquet(given, tmp_path / "none", min_rows_per_file=0)
    assert not (tmp_path / "none").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="SKIPPED: processes are found in /proc")
def test_a_killed_worker_loses_no_row(cluster, models):  # noqa: F811
    n = 40_000
    given = ray.data.from_arrow([pa.Table.from_pylist(rows(n)[at : at + 1000]) for at in range(0, n, 1000)])
    answered = chumoku.ray.predict(given, models / "classes", workers=2, batch_size=500)
    killed, found = [], []
    for batch in answered.iter_batches(batch_size=None, batch_format="pyarrow"):
        found.append(batch)
        if not killed:
            kill_one(cluster, killed)
    assert len(killed) == 1 and len(found) > 1
    assert pa.concat_tables(found).equals(plain(models / "classes", n))


def test_vectors_and_explanations(cluster, models):  # noqa: F811
    given = ray.data.from_items(rows(30))
    explained = chumoku.ray.explain(given, models / "classes", workers=1).take_all()
    expected = arrow.explain(models / "classes")(pa.Table.from_pylist(rows(30))).to_pylist()
    assert [row["explanation"] for row in explained] == [row["explanation"] for row in expected]
    assert chumoku.ray.faults(chumoku.ray.predict(given, models / "classes", workers=1)).take_all()[0]["id"] == 0
    minilm = pathlib.Path(__file__).resolve().parents[3] / "golden" / "pretrained" / "minilm"
    if minilm.exists():
        found = chumoku.ray.embed(given, minilm, workers=1).take_all()
        expected = arrow.embed(minilm)(pa.Table.from_pylist(rows(30))).to_pylist()
        assert [list(row["embedding"] if row["embedding"] is not None else []) for row in found] == [row["embedding"] or [] for row in expected]


def test_wrong_use_is_reported(cluster, models):  # noqa: F811
    with pytest.raises(ValueError, match="nowhere"):
        chumoku.ray.predict(ray.data.from_items(rows(3)), "nowhere")
    with pytest.raises(TypeError, match="dataset of Ray Data"):
        chumoku.ray.predict(rows(3), models / "classes")
    with pytest.raises(ValueError, match="workers"):
        chumoku.ray.predict(ray.data.from_items(rows(3)), models / "classes", workers=0)
    # Reported before any worker starts.
    given = ray.data.from_items(rows(3))
    known = ray.data.from_arrow(pa.Table.from_pylist(rows(3)))
    for kind, match, call in [
        (ValueError, "^top: expected", lambda: chumoku.ray.predict(given, models / "classes", top=0)),
        (ValueError, "^abstain: expected", lambda: chumoku.ray.predict(given, models / "classes", abstain=2)),
        (ValueError, "pairs of texts", lambda: chumoku.ray.predict(given, models / "pairs")),
        (ValueError, "encoders", lambda: chumoku.ray.embed(given, models / "classes")),
        (ValueError, "^method", lambda: chumoku.ray.explain(given, models / "classes", method="none")),
        (ValueError, "no column 'review'", lambda: chumoku.ray.predict(known, models / "classes", column="review")),
        (ValueError, "no column 'price'", lambda: chumoku.ray.predict(known, models / "columns")),
        (TypeError, "expected texts, got int64", lambda: chumoku.ray.predict(known, models / "classes", column="id")),
    ]:
        with pytest.raises(kind, match=match):
            call()
    pd = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="no column 'review'"):
        chumoku.ray.predict(ray.data.from_pandas(pd.DataFrame({"text": TEXTS})), models / "classes", column="review")
    assert chumoku.ray.predict(ray.data.from_pandas(pd.DataFrame({"text": TEXTS})), models / "classes", workers=1).count() == 5
    with pytest.raises(Exception, match="was answered"):
        chumoku.ray.faults(ray.data.from_items(rows(3))).take_all()


def test_a_full_cluster(cluster, models, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    with pytest.warns(UserWarning, match="the cluster has 2 cores: where a worker takes 2, none is left"):
        chumoku.ray.predict(ray.data.from_items(rows(3)), models / "classes", cpus=2)
    # If not all workers fit into the cluster, those that fit start.
    write(tmp_path / "rows.csv", "csv", 300)
    assert _command.run(["predict", str(models / "classes"), "rows.csv", "--out", "out", "--workers", "5", "--rows-per-part", "50"]) == 0
    assert (tmp_path / "out").read_bytes().count(b"\n") == 301


def both(place, models, model, file, *flags):
    """Runs the same command line with the command and with workers, and returns both outputs."""
    code = _command.run(["predict", str(models / model), file, "--out", "theirs", "--workers", "2", "--rows-per-part", "150", *flags])
    assert code == 0
    (place / "ours").write_text(command("predict", models / model, "--input", file, *flags, cwd=place), newline="")
    assert filecmp.cmp(place / "ours", place / "theirs", shallow=False), file


def test_output_files_match_the_command(cluster, models, tmp_path, monkeypatch, capfd):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    for form in ("csv", "json", "parquet"):
        write(tmp_path / f"rows.{form}", form, 1000)
    (tmp_path / "rows.txt").write_text("".join(f"{row['text'] or ''}\n" for row in rows(300)))
    (tmp_path / "none.csv").write_text("id,text\n")
    both(tmp_path, models, "classes", "rows.csv", "--bom", "--top", "2")
    assert "11 rows have no answer" in capfd.readouterr().err
    both(tmp_path, models, "classes", "rows.json", "--json", "--lang", "ja")
    both(tmp_path, models, "classes", "rows.parquet", "--skip-bad-rows")
    both(tmp_path, models, "classes", "rows.txt")
    both(tmp_path, models, "spans", "rows.csv")


def test_errors_match_the_command(cluster, models, tmp_path, monkeypatch, capfd):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "rows.csv", "csv", 300)

    def refused(code, words, *arguments):
        (tmp_path / "out").write_text("before")
        assert _command.run(list(map(str, arguments))) == code
        assert (tmp_path / "out").read_text() == "before" and sorted(os.listdir(tmp_path)) == ["out", "rows.csv"]
        said = capfd.readouterr().err
        for word in words:
            assert word in said, said

    model = models / "classes"
    refused(2, ["--out"], "predict", model, "rows.csv")
    refused(2, ["--out -", "name of a file"], "predict", model, "rows.csv", "--out", "-")
    refused(2, ["nowhere"], "predict", "nowhere", "rows.csv", "--out", "out")
    refused(2, ["missing.csv"], "predict", model, "missing.csv", "--out", "out")
    refused(2, ["--workers", "none"], "predict", model, "rows.csv", "--out", "out", "--workers", "none")
    refused(2, ["--html", "ワーカー"], "predict", model, "rows.csv", "--out", "out", "--html", "x", "--lang", "ja")
    refused(2, ["--frobnicate"], "predict", model, "rows.csv", "--out", "out", "--frobnicate")
    refused(2, ["cannot be written"], "predict", model, "rows.csv", "--out", "no/such/folder")
    refused(2, ["names.conll", "CoNLL"], "predict", models / "spans", models / "names.conll", "--out", "out")
    # The first row has no text.
    refused(2, ["rows.csv:2", "empty"], "predict", model, "rows.csv", "--out", "out", "--strict", "--workers", "1")
    refused(2, ["predict or train", "dance"], "dance")
    for lang, said in (("en", "this is an input file; choose another output"), ("ja", "入力ファイルです")):
        before = (tmp_path / "rows.csv").read_bytes()
        for words in (["rows.csv"], ["--input", "./rows.csv"], [f"--input={tmp_path}/rows.csv"]):
            refused(2, [said, "--out rows.csv"], "predict", model, *words, "--out", "rows.csv", "--lang", lang)
        metrics = (model / "metrics.json").read_bytes()
        refused(2, [said], "predict", model, "rows.csv", "--out", model / "metrics.json", "--lang", lang)
        assert (tmp_path / "rows.csv").read_bytes() == before and (model / "metrics.json").read_bytes() == metrics
    assert _command.run(["predict", "--help"]) == 0 and "--rows-per-part" in capfd.readouterr().out


@pytest.mark.skipif(sys.platform != "linux", reason="SKIPPED: processes are found in /proc")
def test_output_files_match_the_command_although_workers_are_killed(cluster, models, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    # 60 parts; the first worker is killed as soon as it exists.
    write(tmp_path / "rows.csv", "csv", 9_000)
    killed = []
    killer = threading.Thread(target=kill_one, args=(cluster, killed))
    killer.start()
    both(tmp_path, models, "classes", "rows.csv")
    killer.join()
    assert len(killed) == 1


def test_chunks_arrive_complete_and_in_order(cluster, models, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "rows.csv", "csv", 1000)
    arguments = ["chumoku", "predict", str(models / "classes"), "rows.csv"]
    found = list(_chunks.written(arguments, workers=2, cpus=1, rows=100))
    assert [part.at for part in found] == list(range(11))
    assert [part.rows for part in found] == [100] * 10 + [0] and found[-1].content is None
    assert sum(part.unanswered for part in found) == 11 and found[0].reason.startswith("rows.csv:2")


def alone(*words, **more):
    """Runs the command in a process that has not joined a cluster."""
    env = {name: x for name, x in os.environ.items() if name != "RAY_ADDRESS"} | more
    return subprocess.run([sys.executable, "-m", "chumoku.ray", *map(str, words)], capture_output=True, text=True, env=env, timeout=300)


def test_a_missing_cluster_is_reported(models, tmp_path):  # noqa: F811
    write(tmp_path / "rows.csv", "csv", 30)
    with socket.socket() as nobody:
        # A port that is bound, so no other program uses it, but nothing listens on it.
        nobody.bind(("127.0.0.1", 0))
        silent = f"127.0.0.1:{nobody.getsockname()[1]}"
        for address, en, ja in [
            (silent, f"no cluster answers at {silent}", f"{silent} のクラスターから応答がありません"),
            ("foo", "--address: expected auto, local or host:port (such as 10.0.0.1:6379), found foo", "foo です"),
            ("ray://host:70000", "expected auto, local or host:port", "ray://host:70000 です"),
        ]:
            for words, lang, said in [(["predict", models / "classes"], "en", en), (["train"], "ja", ja)]:
                found = alone(*words, tmp_path / "rows.csv", "--out", tmp_path / "out", "--address", address, "--lang", lang)
                errors = [line for line in found.stderr.splitlines() if not line.startswith("data ")]
                assert found.returncode == 2 and len(errors) == 1, found.stderr
                assert errors[0].startswith({"en": "error: ", "ja": "エラー: "}[lang]) and said in errors[0]
                assert not (tmp_path / "out").exists()
    found = alone("predict", models / "classes", tmp_path / "rows.csv", "--out", tmp_path / "out", RAY_ADDRESS="foo")
    assert found.returncode == 2 and found.stderr == "error: RAY_ADDRESS: expected auto, local or host:port (such as 10.0.0.1:6379), found foo\n"


def test_ray_errors_are_shortened_to_one_line(monkeypatch):
    def fails(**options):
        raise RuntimeError("Version mismatch:\n  this and\n  that")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", fails)
    with socket.socket() as somebody:
        somebody.bind(("127.0.0.1", 0))
        somebody.listen()
        address = f"127.0.0.1:{somebody.getsockname()[1]}"
        with pytest.raises(_messages.UsageError, match=f"the cluster at {address} cannot be joined: Version mismatch: this and that$"):
            _cluster.join(_cluster.address_of(address, _messages.english), _messages.english, needed=1)
    monkeypatch.setattr("ray._private.services.find_gcs_addresses", lambda: [])
    monkeypatch.setattr("ray._private.services.find_bootstrap_address", lambda _: None)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(_messages.UsageError, match="no cluster runs on this machine: start one with `ray start --head`"):
        _cluster.join(_cluster.address_of("auto", _messages.english), _messages.english, needed=1)
    # A stale address file of an earlier cluster.
    monkeypatch.setattr("ray._private.services.find_bootstrap_address", lambda _: address)
    with pytest.raises(_messages.UsageError, match=f"no cluster answers at {address}"):
        _cluster.join(_cluster.address_of("auto", _messages.english), _messages.english, needed=1)


def test_a_single_machine_has_at_most_one_worker_per_core(models, tmp_path):  # noqa: F811
    write(tmp_path / "rows.csv", "csv", 30)
    many = os.cpu_count() + 48
    few = "core" if os.cpu_count() == 1 else "cores"
    found = alone("predict", models / "classes", tmp_path / "rows.csv", "--out", tmp_path / "out", "--workers", many, "--lang", "en")
    assert found.returncode == 0, found.stderr
    assert f"workers   {os.cpu_count()}, as this machine has {os.cpu_count()} {few}\n" in found.stderr
    assert (tmp_path / "out").read_bytes().count(b"\n") == 31


def test_the_number_of_workers_that_fit(monkeypatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(_cluster, "cores", lambda: 4)
    for workers, cpus, address, fitting, en, ja in [
        (50, 1, None, 4, "4, as this machine has 4 cores", "4（このマシンのコア数は 4）"),
        (50, 3, None, 1, "1, as this machine has 4 cores, and each worker takes 3", "1（このマシンのコア数は 4、ワーカー 1 つにつき 3）"),
        (2, 8, None, 1, "1, as this machine has 4 cores, and each worker takes 8", "1（このマシンのコア数は 4、ワーカー 1 つにつき 8）"),
        (4, 1, None, 4, None, None),
        (1, 8, None, 1, None, None),
        (50, 1, "10.0.0.1:6379", 50, None, None),
        (None, 1, None, None, None, None),
    ]:
        for pick, said in ((_messages.english, en), (_messages.japanese, ja)):
            told = []
            assert _command._fitting(workers, cpus, address, pick, lambda *words: told.append(words[2])) == fitting
            assert told == ([] if said is None else [said])


def test_running_as_a_module(models, tmp_path):  # noqa: F811
    found = subprocess.run([sys.executable, "-m", "chumoku.ray"], capture_output=True, text=True)
    assert found.returncode == 2 and "predict MODEL DATA" in found.stderr
