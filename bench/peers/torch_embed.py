"""Compares `chumoku embed` with sentence-transformers and ONNX Runtime, on the same encoder and texts.

    python torch_embed.py FOLDER TEXTS [--threads 2] [--rounds 3] [--chumoku target/release/chumoku]

FOLDER is a model of sentence-transformers, such as all-MiniLM-L6-v2. TEXTS is a file with one text per line.
sentence-transformers sorts texts by length and pads them in batches of 32. It runs in float32 and in bfloat16, and is
timed without loading. ONNX Runtime runs the encoder exported by torch.onnx, fused by its optimizer for BERT, on the
same sorted batches in float32, also timed without loading. Chumoku's time is that of the whole command, with starting,
loading, reading and writing, at its default precision and with --precision medium. All sides alternate. Prints one JSON
object: seconds, texts per second by the medians, peak memory in bytes, and the distance between the vectors.

With --one the peers get one text at a time, up to 1,000 texts, and the median in milliseconds is printed. Chumoku's
side is `cargo run --release -p bench -- embed FOLDER TEXTS`. """

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


def onnx_peer(arguments):
    """Runs ONNX Runtime: the mean over the tokens' vectors, of length 1."""
    import onnxruntime
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(arguments.folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = arguments.threads
    session = onnxruntime.InferenceSession(arguments.onnx, options, providers=["CPUExecutionProvider"])

    def encode(texts):
        found = tokenizer.encode_batch(texts)
        order = sorted(range(len(texts)), key=lambda i: -len(found[i].ids))
        vectors = np.zeros((len(texts), 0), np.float32)
        for start in range(0, len(texts), 32):
            rows = order[start : start + 32]
            longest = len(found[rows[0]].ids)
            ids, mask = (np.zeros((len(rows), longest), np.int64) for _ in range(2))
            for i, row in enumerate(rows):
                ids[i, : len(found[row].ids)] = found[row].ids
                mask[i, : len(found[row].ids)] = 1
            (hidden,) = session.run(None, {"ids": ids, "mask": mask})
            mean = (hidden * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
            if not vectors.size:
                vectors = np.zeros((len(texts), mean.shape[1]), np.float32)
            vectors[rows] = mean / np.linalg.norm(mean, axis=1, keepdims=True)
        return vectors

    return encode


def export(folder, out):
    """Exports the encoder as ONNX, optimized by ONNX Runtime's tool."""
    import torch
    from onnxruntime.transformers import optimizer
    from transformers import AutoModel

    encoder = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()

    class States(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = encoder

        def forward(self, ids, mask):
            return self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state

    ids = mask = torch.ones(2, 16, dtype=torch.long)
    axes = {0: "texts", 1: "tokens"}
    names = {"input_names": ["ids", "mask"], "output_names": ["states"]}
    plain = str(out.with_suffix(".plain.onnx"))
    torch.onnx.export(States(), (ids, mask), plain, **names, dynamic_axes={"ids": axes, "mask": axes}, dynamo=False)
    config = encoder.config
    sizes = {"num_heads": config.num_attention_heads, "hidden_size": config.hidden_size}
    model = optimizer.optimize_model(plain, model_type="bert", **sizes)
    print("fused:", model.get_fused_operator_statistics(), file=sys.stderr)
    model.save_model_to_file(str(out))


def peer(arguments):
    """Runs a peer in a separate process: prints the seconds, and writes the vectors to a file."""
    if arguments.dtype == "onnx":
        encode = onnx_peer(arguments)
    else:
        encode = torch_peer(arguments)
    texts = arguments.texts.read_text().splitlines()
    encode(texts[:32])
    if arguments.one:
        times = []
        for text in texts[:1000]:
            start = time.perf_counter()
            encode([text])
            times.append(1e3 * (time.perf_counter() - start))
        print(json.dumps({"median": statistics.median(times)}))
        return
    start = time.perf_counter()
    vectors = encode(texts)
    seconds = time.perf_counter() - start
    np.save(arguments.out, np.asarray(vectors, dtype=np.float32))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "peak_bytes": peak}))


def torch_peer(arguments):
    """Runs sentence-transformers."""
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(arguments.threads)
    model = SentenceTransformer(str(arguments.folder), device="cpu")
    if arguments.dtype == "bfloat16":
        model = model.bfloat16()
    settings = {"batch_size": 32, "normalize_embeddings": True, "show_progress_bar": False}
    return lambda texts: model.encode(texts, **settings)


def run(command):
    """Runs a command and returns its seconds, its peak memory and its output."""
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
    parser.add_argument("--peers", default="float32,bfloat16,onnx", help="bfloat16 is slow on processors without support for it")
    parser.add_argument("--one", action="store_true", help="time the peers on one text after another")
    parser.add_argument("--dtype", help=argparse.SUPPRESS)
    parser.add_argument("--onnx", help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.dtype:
        return peer(arguments)
    place = Path(tempfile.mkdtemp())
    sides = {side: [] for side in ["high", "medium", *arguments.peers.split(",")]}
    if "onnx" in sides:
        export(arguments.folder, place / "encoder.onnx")
    if arguments.one:
        medians = {}
        for side in arguments.peers.split(","):
            command = [sys.executable, __file__, arguments.folder, arguments.texts, "--threads", arguments.threads, "--one"]
            _, _, said = run([*command, "--dtype", side, "--onnx", place / "encoder.onnx"])
            medians[side] = json.loads(said.splitlines()[-1])["median"]
        print(json.dumps({"threads": arguments.threads, "milliseconds": medians}, indent=2))
        return
    for _ in range(arguments.rounds):
        for side, found in sides.items():
            out = place / f"{side}.npy"
            if side in ("high", "medium"):
                command = [arguments.chumoku, "embed", arguments.folder, "--input", arguments.texts, "--input-format", "text"]
                command += ["--threads", arguments.threads, "--precision", side]
                seconds, peak, _ = run([*command, "--out", out])
                found.append((seconds, peak))
            else:
                command = [sys.executable, __file__, arguments.folder, arguments.texts, "--threads", arguments.threads]
                _, _, said = run([*command, "--dtype", side, "--onnx", place / "encoder.onnx", "--out", out])
                said = json.loads(said.splitlines()[-1])
                found.append((said["seconds"], said["peak_bytes"]))
    rows = len(arguments.texts.read_text().splitlines())
    vectors = {side: np.load(place / f"{side}.npy") for side in sides}
    differences = {side: float(np.abs(vectors[side] - vectors["high"]).max()) for side in sides if side != "high"}
    of_one = lambda runs: statistics.median(seconds for seconds, _ in runs)
    print(json.dumps({
        "texts": rows,
        "threads": arguments.threads,
        "largest_difference_from_high": differences,
        "seconds": {side: [round(seconds, 3) for seconds, _ in runs] for side, runs in sides.items()},
        "texts_a_second": {side: round(rows / of_one(runs), 1) for side, runs in sides.items()},
        "peak_bytes": {side: max(peak for _, peak in runs) for side, runs in sides.items()},
    }, indent=2))


if __name__ == "__main__":
    main()
