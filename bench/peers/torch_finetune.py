"""Compares `chumoku train --from` with fine-tuning by transformers and PyTorch.

    python torch_finetune.py FOLDER ENCODER [--sets sst2] [--epochs 3] [--seed 1] [--threads 2] [--dtype float32]
    python torch_finetune.py FOLDER ENCODER --speed [--steps 40] [--rounds 3] [--chumoku target/release/chumoku]

FOLDER is that of `bench -- accuracy` (see labelled.py). Without `--speed` it trains as most scripts do (AdamW, 5e-5,
linear decay after 6 % of the steps, batches of 32 rows, the best epoch on the dev rows) and prints the accuracy. With
`--speed` it takes steps in float32 and under bfloat16 autocast, with padded batches in random order and in order of
length. It prints tokens per second (without padding) and peak memory of each, in separate processes. Chumoku's speed
comes from its progress line in the first epoch, measured alternately. """

import json
import multiprocessing
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import labelled


def batches(texts, tokenizer, labels, order, device_labels):
    import torch

    for start in range(0, len(order), 32):
        rows = order[start : start + 32]
        batch = tokenizer([texts[i] for i in rows], padding=True, truncation=True, max_length=512, return_tensors="pt")
        yield batch, torch.tensor([device_labels[labels[i]] for i in rows])


def accuracy(model, tokenizer, rows, numbers):
    import torch

    right = 0
    order = sorted(range(len(rows)), key=lambda i: len(rows.texts[i]))
    with torch.no_grad():
        for batch, labels in batches(rows.texts, tokenizer, rows.labels, order, numbers):
            right += int((model(**batch).logits.argmax(-1) == labels).sum())
    return 100 * right / len(rows)


def made(arguments, classes):
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    tokenizer = AutoTokenizer.from_pretrained(arguments.encoder)
    model = AutoModelForSequenceClassification.from_pretrained(arguments.encoder, num_labels=classes)
    return model, tokenizer, torch.optim.AdamW(model.parameters(), lr=5e-5, weight_decay=0.01)


def step(model, optimizer, batch, labels, dtype):
    import torch

    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == "bfloat16"):
        loss = model(**batch, labels=labels).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()


def trained(arguments, data):
    import torch

    train, dev = data.held_out(arguments.seed)
    numbers = {label: number for number, label in enumerate(sorted(set(train.labels)))}
    model, tokenizer, optimizer = made(arguments, len(numbers))
    steps = arguments.epochs * ((len(train) + 31) // 32)
    rate = lambda at: min(at / (0.06 * steps), (steps - at) / (0.94 * steps))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda at: rate(at + 1))
    found, start = [], time.perf_counter()
    for _ in range(arguments.epochs):
        model.train()
        order = torch.randperm(len(train)).tolist()
        for batch, labels in batches(train.texts, tokenizer, train.labels, order, numbers):
            step(model, optimizer, batch, labels, arguments.dtype)
            schedule.step()
        model.eval()
        found.append([accuracy(model, tokenizer, rows, numbers) for rows in (dev, data.test)])
    best = max(range(len(found)), key=lambda epoch: found[epoch][0])
    seconds = round(time.perf_counter() - start, 1)
    report = {"set": data.name, "seed": arguments.seed, "dtype": arguments.dtype, "accuracy": round(found[best][1], 2)}
    print(json.dumps(report | {"best_epoch": best + 1, "by_epoch": found, "seconds": seconds}), flush=True)


def rate_of_torch(arguments, data, dtype, is_sorted):
    """Returns tokens per second without padding, from the third step on, and the peak memory in bytes."""
    import torch

    train, _ = data.held_out(arguments.seed)
    numbers = {label: number for number, label in enumerate(sorted(set(train.labels)))}
    model, tokenizer, optimizer = made(arguments, len(numbers))
    order = torch.randperm(len(train), generator=torch.Generator().manual_seed(1)).tolist()
    if is_sorted:
        # Batches of one length each, in random order, so that the steps measured are of all lengths.
        order.sort(key=lambda i: len(train.texts[i]))
        cut = [order[i : i + 32] for i in range(0, len(order), 32)]
        order = sum((cut[i] for i in torch.randperm(len(cut), generator=torch.Generator().manual_seed(2)).tolist()), [])
    model.train()
    tokens, start = 0, None
    for number, (batch, labels) in enumerate(batches(train.texts, tokenizer, train.labels, order, numbers)):
        if number == 3:
            tokens, start = 0, time.perf_counter()
        step(model, optimizer, batch, labels, dtype)
        tokens += int(batch["attention_mask"].sum())
        if number == arguments.steps + 2:
            break
    rate = tokens / (time.perf_counter() - start)
    return rate, 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def rate_of_chumoku(arguments, data):
    """Returns the same from the progress of the first epoch. Stops the run after about as many steps as PyTorch's."""
    train = labelled.file(arguments.folder / data.name, "train")
    with tempfile.TemporaryDirectory() as folder:
        command = [arguments.chumoku, "train", train, "--from", arguments.encoder, "--out", f"{folder}/model"]
        command += ["--threads", arguments.threads, "--seed", arguments.seed, "--lang", "en"]
        run = subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        rate = None
        for line in run.stderr:
            found = re.search(r"step (\d+) of .* ([\d,]+) tokens/s", line)
            if found:
                rate = int(found[2].replace(",", ""))
                if int(found[1]) >= arguments.steps:
                    break
        status = Path(f"/proc/{run.pid}/status").read_text()
        run.kill()
        run.wait()
    return rate, 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", status)[1])


def main():
    parser = labelled.parser(__doc__)
    parser.set_defaults(sets="sst2")
    parser.add_argument("encoder")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dtypes", default="float32,bfloat16")
    parser.add_argument("--chumoku", default="target/release/chumoku")
    arguments = parser.parse_args()
    for data in labelled.load_sets(arguments):
        if not arguments.speed:
            trained(arguments, data)
            continue
        runs, apart = {}, multiprocessing.get_context("spawn")
        for _ in range(arguments.rounds):
            runs.setdefault("chumoku", []).append(rate_of_chumoku(arguments, data))
            for dtype in arguments.dtypes.split(","):
                for is_sorted in (False, True):
                    name = f"torch {dtype}, {'by length' if is_sorted else 'padded'}"
                    with apart.Pool(1) as pool:
                        found = pool.apply(rate_of_torch, (arguments, data, dtype, is_sorted))
                    runs.setdefault(name, []).append(found)
        medians = {name: round(statistics.median(rate for rate, _ in found)) for name, found in runs.items()}
        peaks = {name: max(peak for _, peak in found) for name, found in runs.items()}
        best = max(value for name, value in medians.items() if name != "chumoku")
        report = {"set": data.name, "processor": labelled.processor(), "threads": arguments.threads}
        report |= {"tokens_per_second": medians, "ratio": round(medians["chumoku"] / best, 2), "peak_bytes": peaks}
        print(json.dumps(report), flush=True)


if __name__ == "__main__":
    sys.exit(main())
