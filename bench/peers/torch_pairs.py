"""A peer for pairs of texts: a pretrained encoder fine-tuned with transformers and PyTorch.

    python torch_pairs.py TRAIN.jsonl TEST.jsonl ENCODER [--dev DEV.jsonl] [--epochs 10] [--rate 5e-5] [--seed 1] [--threads 2]

Each row has sentence1, sentence2 and label: a word (accuracy is printed) or a number (Pearson's r and the mean absolute
error). It trains as most scripts do: AdamW, linear decay after 6 % of the steps, batches of 32 rows, the best epoch on
the dev rows. Without a dev file these are every tenth group of rows that share a text. The token embeddings are frozen,
as in Chumoku. """

import argparse
import json
import random
import time

import numpy as np
import torch
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing
from transformers import AutoModelForSequenceClassification


def read(path):
    with open(path, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return [[row[key] for row in rows] for key in ("sentence1", "sentence2")], np.array([row["label"] for row in rows])


def parts(texts, seed):
    """Returns training rows and dev rows: a tenth of the groups that share a text."""
    group = {}

    def root(text):
        while group.setdefault(text, text) != text:
            text = group[text]
        return text

    for first, second in zip(*texts):
        group[root(first)] = root(second)
    roots = [root(first) for first in texts[0]]
    names = sorted(set(roots))
    random.Random(seed).shuffle(names)
    dev = set(names[: len(names) // 10])
    return [[row for row, name in enumerate(roots) if (name in dev) == is_dev] for is_dev in (False, True)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("train", "test", "encoder"):
        parser.add_argument(name)
    parser.add_argument("--dev")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--rate", type=float, default=5e-5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)

    texts, labels = read(arguments.train)
    is_number = np.issubdtype(labels.dtype, np.number)
    classes = None if is_number else sorted(set(labels))

    def rows_of(texts, labels):
        numbers = labels.astype(np.float32) if is_number else np.array([classes.index(label) for label in labels])
        return list(zip(*texts, numbers.tolist()))

    rows, test = rows_of(texts, labels), rows_of(*read(arguments.test))
    if arguments.dev:
        train, dev = rows, rows_of(*read(arguments.dev))
    else:
        train, dev = ([rows[row] for row in part] for part in parts(texts, arguments.seed))

    tokenizer = Tokenizer.from_file(f"{arguments.encoder}/tokenizer.json")
    tokenizer.no_truncation()
    pad = next(name for name in ("<pad>", "[PAD]") if tokenizer.token_to_id(name) is not None)
    if pad == "<pad>":
        # Files of XLM-R's vocabulary may lack a template for pairs.
        tokenizer.post_processor = TemplateProcessing(
            single="<s> $A </s>",
            pair="<s> $A </s> </s> $B:1 </s>:1",
            special_tokens=[(name, tokenizer.token_to_id(name)) for name in ("<s>", "</s>")],
        )
    tokenizer.enable_padding(pad_id=tokenizer.token_to_id(pad), pad_token=pad)
    outputs = 1 if is_number else len(classes)
    model = AutoModelForSequenceClassification.from_pretrained(
        arguments.encoder, num_labels=outputs, dtype=torch.float32
    )
    model.get_input_embeddings().weight.requires_grad = False
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=arguments.rate, weight_decay=0.01)
    steps = arguments.epochs * -(-len(train) // 32)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda at: min((at + 1) / (0.06 * steps), (steps - at) / (0.94 * steps))
    )

    def batch(rows):
        read = tokenizer.encode_batch([(first, second) for first, second, _ in rows])
        inputs = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
        inputs = {name: torch.tensor([getattr(row, kind) for row in read]) for name, kind in inputs.items()}
        return inputs, torch.tensor([answer for *_, answer in rows])

    def scores(rows):
        order = sorted(range(len(rows)), key=lambda row: len(rows[row][0]) + len(rows[row][1]))
        found = np.zeros((len(rows), outputs))
        with torch.no_grad():
            for at in range(0, len(order), 32):
                found[order[at : at + 32]] = model(**batch([rows[row] for row in order[at : at + 32]])[0]).logits
        truth = np.array([answer for *_, answer in rows])
        if not is_number:
            return {"accuracy": round(100 * (found.argmax(1) == truth).mean(), 2)}
        errors = np.abs(found[:, 0] - truth)
        return {"pearson": round(np.corrcoef(found[:, 0], truth)[0, 1], 4), "mean_absolute_error": round(errors.mean(), 4)}

    start, by_epoch = time.time(), []
    for epoch in range(arguments.epochs):
        model.train()
        random.Random(f"{arguments.seed} {epoch}").shuffle(train)
        for at in range(0, len(train), 32):
            inputs, answers = batch(train[at : at + 32])
            model(**inputs, labels=answers).loss.backward()
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
        model.eval()
        by_epoch.append({"dev": scores(dev), "test": scores(test)})
        print(json.dumps({"epoch": epoch + 1} | by_epoch[-1] | {"seconds": round(time.time() - start)}), flush=True)
    best = max(by_epoch, key=lambda found: found["dev"]["pearson" if is_number else "accuracy"])
    print(json.dumps({"seed": arguments.seed, "rate": arguments.rate, "best_epoch": 1 + by_epoch.index(best)} | best["test"]))


if __name__ == "__main__":
    main()
