"""Vectors of texts by a pretrained encoder: sentence-transformers beside `chumoku embed`, on the same folder and texts.

    python torch_embed.py FOLDER TEXTS [--threads 2] [--rounds 3] [--chumoku target/release/chumoku]

FOLDER is a model of sentence-transformers, e.g. all-MiniLM-L6-v2; TEXTS is a file with a text a line. sentence-transformers
sorts texts by length, pads them in batches of 32, and is timed without loading; it is run in float32 and in bfloat16.
Chumoku's time is that of the whole command: it starts, loads the model, reads, cuts and writes. The two take turns. Printed
as one JSON object: medians in seconds, texts a second, peak memory in bytes, and how far the vectors are apart.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np


def peer(arguments):
    """One run in a process of its own: the seconds, and the vectors in a file."""
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(arguments.threads)
    model = SentenceTransformer(str(arguments.folder), device="cpu")
    if arguments.dtype == "bfloat16":
        model = model.bfloat16()
    texts = arguments.texts.read_text().splitlines()
    model.encode(texts[:32], normalize_embeddings=True)
    start = time.perf_counter()
    vectors = model.encode(texts, batch_size=32, normalize_embeddings=True, show_progress_bar=False)
    seconds = time.perf_counter() - start
    np.save(arguments.out, np.asarray(vectors, dtype=np.float32))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "peak_bytes": peak}))


def run(command):
    """A command's seconds, its peak memory, and what it printed."""
    before = time.perf_counter()
    timed = ["/usr/bin/env", "time", "-f", "%M", *map(str, command)]
    found = subprocess.run(timed, capture_output=True, text=True, check=True)
    return time.perf_counter() - before, int(found.stderr.split()[-1]) * 1024, found.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("texts", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--chumoku", type=Path, default=Path("target/release/chumoku"))
    parser.add_argument("--dtypes", default="float32,bfloat16", help="of sentence-transformers; bfloat16 is slow without AMX")
    parser.add_argument("--dtype", help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.dtype:
        return peer(arguments)
    place = Path(tempfile.mkdtemp())
    sides = {side: [] for side in ["chumoku", "float32", *arguments.dtypes.split(",")]}
    for _ in range(arguments.rounds):
        for side, found in sides.items():
            out = place / f"{side}.npy"
            if side == "chumoku":
                command = [arguments.chumoku, "embed", arguments.folder, "--input", arguments.texts, "--input-format", "text"]
                seconds, peak, _ = run([*command, "--threads", arguments.threads, "--out", out])
                found.append((seconds, peak))
            else:
                command = [sys.executable, __file__, arguments.folder, arguments.texts, "--threads", arguments.threads]
                _, _, said = run([*command, "--dtype", side, "--out", out])
                said = json.loads(said.splitlines()[-1])
                found.append((said["seconds"], said["peak_bytes"]))
    rows = len(arguments.texts.read_text().splitlines())
    ours, theirs = (np.load(place / f"{side}.npy") for side in ("chumoku", "float32"))
    of_one = lambda runs: statistics.median(seconds for seconds, _ in runs)
    print(json.dumps({
        "texts": rows,
        "threads": arguments.threads,
        "largest_difference_from_float32": float(np.abs(ours - theirs).max()),
        "seconds": {side: [round(seconds, 3) for seconds, _ in runs] for side, runs in sides.items()},
        "texts_a_second": {side: round(rows / of_one(runs), 1) for side, runs in sides.items()},
        "peak_bytes": {side: max(peak for _, peak in runs) for side, runs in sides.items()},
    }, indent=2))


if __name__ == "__main__":
    main()
