"""Measures the cost of distributing steps: one process with two threads, and two workers with one thread each.

    python ray_steps.py [--data FILE] [--runs 5] [flags of chumoku train]

Without a file it trains on the built-in reviews. Needs the package with Ray (`pip install "./crates/chumoku-py[ray]"`).
The two alternate, five runs each, and the models must have the same bytes. Prints one JSON object: milliseconds per
step of each run, their medians and ratio, and the share of waiting and exchange in the distributed step. From these it
estimates the step of 4, 16 and 64 machines with two cores on 10 Gbit/s, with one micro-batch each. That is an estimate,
not a measurement. """

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

GIGABIT = 1e9 / 8


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data")
    parser.add_argument("--runs", type=int, default=5)
    own, flags = parser.parse_known_args()
    data = [own.data] if own.data else ["--builtin", "reviews"]
    alone, shared, waiting, models = [], [], [], set()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "model"
        for _ in range(own.runs):
            words = [*data, "--out", str(out), "--force", *flags]
            said = run([sys.executable, "-m", "chumoku", "train", *words, "--threads", "2", "--profile"])
            metrics = json.loads((out / "metrics.json").read_text())
            seconds = float(re.search(r"^training steps +([\d.]+)", said, re.MULTILINE)[1])
            alone.append(1000 * seconds / metrics["steps"])
            models.add((out / "model.safetensors").read_bytes())
            said = run([sys.executable, "-m", "chumoku.ray", "train", *words, "--workers", "2", "--threads", "2"])
            each, share = re.search(r"^workers +([\d.]+) ms a step, ([\d.]+) % of it waiting", said, re.MULTILINE).groups()
            shared.append(float(each))
            waiting.append(float(share))
            models.add((out / "model.safetensors").read_bytes())
    if len(models) != 1:
        sys.exit("the models differ")
    numbers = metrics["parameters"]
    of_one, of_two, share = (statistics.median(values) for values in (alone, shared, waiting))
    # The time of a micro-batch of half the batch on a worker's thread.
    learning = of_two * (1 - share / 100)
    moved = 4 * numbers / (10 * GIGABIT) * 1000
    estimates = {}
    for machines in (4, 16, 64):
        # Each machine gets the weights once, from others that have them. Each adds a slice of all gradients, and the
        # coordinator gets the sum.
        exchange = moved * (machines.bit_length() + (machines - 1) / machines + 1)
        estimates[machines] = {"exchange_ms": round(exchange, 1), "share": round(exchange / (exchange + learning), 3)}
    print(
        json.dumps(
            {
                "parameters": numbers,
                "steps": metrics["steps"],
                "alone_ms": [round(x, 2) for x in alone],
                "shared_ms": [round(x, 2) for x in shared],
                "ratio": round(of_two / of_one, 2),
                "waiting_and_exchange_percent": share,
                "estimated_with_a_part_of_this_size_each": estimates,
            }
        )
    )


if __name__ == "__main__":
    main()
