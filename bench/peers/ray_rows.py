"""Compares Ray workers, one of which is killed, with `chumoku predict`: equal files, time and memory.

    python ray_rows.py CHUMOKU [--rows 1000000] [--workers 2] [--place FOLDER]

CHUMOKU is the program. The Python that runs this has the package with Ray (`pip install "./crates/chumoku-py[ray]"`).
The rows are the built-in reviews, each with a number; some have no text. Prints seconds, the peak memory of all
processes together (proportional shares, sampled), which process was killed and when, and whether both files are the
same. """

import argparse
import csv
import filecmp
import os
import pathlib
import signal
import subprocess
import sys
import time

REVIEWS = pathlib.Path(__file__).resolve().parents[2] / "crates" / "chumoku" / "builtin" / "reviews.tsv"


def make(file, rows):
    with open(REVIEWS, newline="", encoding="utf-8") as reviews:
        texts = [line.rstrip("\n").split("\t")[-1] for line in reviews][1:]
    with open(file, "w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["id", "text"])
        writer.writerows([i, "" if i % 9973 == 0 else f"{texts[i % len(texts)]} No. {i}"] for i in range(rows))


def family(root):
    """Returns the process and its descendants."""
    parents = {}
    for place in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            parents[int(place.name)] = int((place / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
    found, more = set(), {root}
    while more:
        found |= more
        more = {pid for pid, parent in parents.items() if parent in more} - found
    return found


def memory(pids):
    """Returns their memory in bytes, with shared memory counted once."""
    total = 0
    for pid in pids:
        try:
            line = next(line for line in open(f"/proc/{pid}/smaps_rollup") if line.startswith("Pss:"))
            total += int(line.split()[1]) << 10
        except (OSError, StopIteration):
            continue
    return total


def run(arguments, out, kill_after=None):
    """Runs a command and returns its seconds, its peak memory in bytes, and the killed process."""
    start, most, killed = time.monotonic(), 0, None
    process = subprocess.Popen(arguments, stdout=open(out, "wb") if out else None)
    while process.poll() is None:
        time.sleep(0.25)
        pids, passed = family(process.pid), time.monotonic() - start
        most = max(most, memory(pids))
        if kill_after is not None and killed is None and passed > kill_after:
            for pid in pids:
                try:
                    name = pathlib.Path(f"/proc/{pid}/cmdline").read_text()
                except OSError:
                    continue
                if name.startswith("ray::") and "MapWorker" in name:
                    os.kill(pid, signal.SIGKILL)
                    killed = (pid, round(passed, 1))
                    break
    if process.returncode != 0:
        sys.exit(f"{arguments[:4]} ended with {process.returncode}")
    return time.monotonic() - start, most, killed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chumoku")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kill-after", type=float, default=15.0, help="seconds")
    parser.add_argument("--place", type=pathlib.Path, default=pathlib.Path("ray-rows"))
    asked = parser.parse_args()
    place, model = asked.place, asked.place / "model"
    place.mkdir(exist_ok=True)
    rows = place / f"rows-{asked.rows}.csv"
    make(rows, asked.rows)
    if not model.exists():
        subprocess.run([asked.chumoku, "train", "--model", "ngrams", "--out", model], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    print(f"{asked.rows:,} rows, {rows.stat().st_size / 1e6:.0f} MB")
    ours, theirs = place / "predict.csv", place / "ray.csv"
    for name, arguments, out, kill in [
        ("chumoku predict", [asked.chumoku, "predict", model, "--input", rows], ours, None),
        ("chumoku.ray", [sys.executable, "-m", "chumoku.ray", "predict", model, rows, "--out", theirs, "--workers", str(asked.workers)], None, asked.kill_after),
    ]:  # fmt: skip
        seconds, most, killed = run(list(map(str, arguments)), out, kill)
        print(f"{name}: {seconds:.1f} s, {asked.rows / seconds:,.0f} rows/s, at most {most / 1e6:,.0f} MB, killed: {killed}")
    same = filecmp.cmp(ours, theirs, shallow=False)
    print(f"the files are {'the same' if same else 'NOT the same'}: {ours.stat().st_size:,} bytes")
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
