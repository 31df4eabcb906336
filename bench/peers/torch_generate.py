"""Compares `chumoku generate` with transformers: greedy decoding with the same published language model.

    python torch_generate.py FOLDER [--tokens 129] [--threads 2] [--rounds 3] [--chumoku target/release/chumoku]

FOLDER is a causal language model, such as SmolLM2-135M-Instruct. transformers generates the tokens in float32 and in
bfloat16, each in a separate process, and Chumoku with its command. All alternate. Tokens per second exclude the first
token: the time of one token is subtracted, so that starting and loading count on neither side. Prints one JSON object:
medians, the ratio to the better result of transformers, and peak memory in bytes. """

import argparse
import json
import multiprocessing
import resource
import statistics
import subprocess
import time

from labelled import processor

PROMPT = "Once upon a time, in a village by the sea,"


def rate_of_torch(folder, dtype, tokens, threads):
    """Returns tokens per second and the peak memory in bytes."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(threads)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype)).eval()
    inputs = tokenizer(PROMPT, return_tensors="pt")

    def seconds(count):
        start = time.perf_counter()
        found = model.generate(**inputs, do_sample=False, min_new_tokens=count, max_new_tokens=count, pad_token_id=0)
        assert found.shape[1] == inputs["input_ids"].shape[1] + count
        return time.perf_counter() - start

    seconds(4)
    rate = (tokens - 1) / (seconds(tokens) - seconds(1))
    return rate, 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def rate_of_chumoku(arguments):
    """Returns the same for whole commands."""

    def run(count):
        command = [arguments.chumoku, "generate", arguments.folder, PROMPT, "--temperature", 0, "--no-chat"]
        command += ["--max-tokens", count, "--threads", arguments.threads]
        timed = ["/usr/bin/env", "time", "-f", "%M", *map(str, command)]
        start = time.perf_counter()
        found = subprocess.run(timed, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True)
        return time.perf_counter() - start, 1024 * int(found.stderr.split()[-1])

    all_tokens, peak = run(arguments.tokens)
    return (arguments.tokens - 1) / (all_tokens - run(1)[0]), peak


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--tokens", type=int, default=129)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dtypes", default="float32,bfloat16")
    parser.add_argument("--chumoku", default="target/release/chumoku")
    arguments = parser.parse_args()
    runs, apart = {}, multiprocessing.get_context("spawn")
    for _ in range(arguments.rounds):
        runs.setdefault("chumoku", []).append(rate_of_chumoku(arguments))
        for dtype in arguments.dtypes.split(","):
            with apart.Pool(1) as pool:
                found = pool.apply(rate_of_torch, (arguments.folder, dtype, arguments.tokens, arguments.threads))
            runs.setdefault(f"transformers {dtype}", []).append(found)
    medians = {name: round(statistics.median(rate for rate, _ in found), 1) for name, found in runs.items()}
    best = max(value for name, value in medians.items() if name != "chumoku")
    report = {"processor": processor(), "threads": arguments.threads, "tokens_per_second": medians}
    report |= {"ratio": round(medians["chumoku"] / best, 2)}
    print(json.dumps(report | {"peak_bytes": {name: max(peak for _, peak in found) for name, found in runs.items()}}))


if __name__ == "__main__":
    main()
