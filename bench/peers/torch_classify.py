"""A peer of the classifier: a transformer from scratch in plain PyTorch, on labeled text.

    python torch_classify.py FOLDER [--sets sst2,trec] [--seeds 1,2,3]

FOLDER is that of `bench -- accuracy` (see labelled.py). It is written as a competent user would: PyTorch's encoder (2
layers, width 128, 4 heads, pre-norm, GELU) over words, or over characters if words are not separated by spaces. It has
learned positions, mean pooling, dropout, label smoothing, AdamW with warm-up and cosine, and batches of similar
lengths. The dropout and the epoch have the best accuracy on the dev rows, or on a tenth of the training rows. Prints
one JSON object per run, then one with the mean of each set. """

import json
import math
import random
import re
import statistics
import time
from collections import Counter

import torch
from sklearn.metrics import accuracy_score, f1_score
from torch import nn

import labelled

PADDING, UNKNOWN = 0, 1


class Classifier(nn.Module):
    """Token and position embeddings → encoder → mean over the tokens that are no padding → linear."""

    def __init__(self, vocabulary, classes, dropout, max_length, d_model=128, heads=4, layers=2):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, d_model, padding_idx=PADDING)
        self.positions = nn.Embedding(max_length, d_model)
        for embedding in (self.tokens, self.positions):
            nn.init.normal_(embedding.weight, std=0.02)
        self.dropout = nn.Dropout(dropout)
        layer = nn.TransformerEncoderLayer(
            d_model, heads, 4 * d_model, dropout, activation="gelu", norm_first=True, batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(d_model), enable_nested_tensor=False)
        self.head = nn.Linear(d_model, classes)

    def forward(self, ids):
        padding = ids == PADDING
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        x = self.encoder(self.dropout(x), src_key_padding_mask=padding)
        real = (~padding).unsqueeze(-1)
        return self.head(self.dropout((x * real).sum(1) / real.sum(1)))


class Vocabulary:
    """Words (or characters) that occur at least twice in the training rows."""

    def __init__(self, texts, unspaced, max_length):
        self.unspaced, self.max_length = unspaced, max_length
        counts = Counter(token for text in texts for token in self.split(text))
        kept = [token for token, count in counts.most_common(30_000) if count >= 2]
        self.numbers = {token: number for number, token in enumerate(kept, start=UNKNOWN + 1)}

    def __len__(self):
        return len(self.numbers) + 2

    def split(self, text):
        text = text.lower()
        return [c for c in text if not c.isspace()] if self.unspaced else re.findall(r"\w+|[^\w\s]", text)

    def ids(self, text):
        return [self.numbers.get(token, UNKNOWN) for token in self.split(text)[: self.max_length]] or [UNKNOWN]


def padded(rows):
    longest = max(map(len, rows))
    return torch.tensor([row + [PADDING] * (longest - len(row)) for row in rows])


def batches(rows, size):
    """Yields row numbers in batches of similar lengths, in random order."""
    order = random.sample(range(len(rows)), len(rows))
    stretch = 50 * size
    stretches = [sorted(order[i : i + stretch], key=lambda row: len(rows[row])) for i in range(0, len(order), stretch)]
    found = [part[i : i + size] for part in stretches for i in range(0, len(part), size)]
    return random.sample(found, len(found))


@torch.inference_mode()
def predict(model, rows):
    model.eval()
    order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
    classes = [0] * len(rows)
    for i in range(0, len(order), 64):
        part = order[i : i + 64]
        for row, found in zip(part, model(padded([rows[row] for row in part])).argmax(1).tolist()):
            classes[row] = found
    return classes


def fit(train, dev, vocabulary, classes, dropout, seed, arguments):
    """Returns (dev accuracy, epoch, weights) of the best epoch. Stops after `patience` epochs without a better one."""
    torch.manual_seed(seed)
    random.seed(seed)
    (rows, labels), (dev_rows, dev_labels) = train, dev
    model = Classifier(len(vocabulary), classes, dropout, arguments.max_length)
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": 0.01}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=arguments.learning_rate, betas=(0.9, 0.98), fused=True)
    total = arguments.epochs * math.ceil(len(rows) / arguments.batch)
    warmup = total // 20 + 1
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: min((step + 1) / warmup, 0.5 * (1 + math.cos(math.pi * max(0, step - warmup) / max(1, total - warmup)))),
    )
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    best = (-1.0, 0, None)
    for epoch in range(1, arguments.epochs + 1):
        model.train()
        for batch in batches(rows, arguments.batch):
            loss = criterion(model(padded([rows[row] for row in batch])), torch.tensor([labels[row] for row in batch]))
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
        accuracy = accuracy_score(dev_labels, predict(model, dev_rows))
        if accuracy > best[0]:
            best = (accuracy, epoch, {name: tensor.clone() for name, tensor in model.state_dict().items()})
        elif epoch - best[1] >= arguments.patience:
            break
    return best


def run(data, seed, arguments):
    train, dev = data.held_out(seed)
    names = sorted(set(data.train.labels))
    numbers = {label: number for number, label in enumerate(names)}
    vocabulary = Vocabulary(train.texts, data.unspaced(), arguments.max_length)

    def encoded(rows):
        return [vocabulary.ids(text) for text in rows.texts], [numbers.get(label, -1) for label in rows.labels]

    start = time.perf_counter()
    parts = encoded(train), encoded(dev)
    tried = {
        dropout: fit(*parts, vocabulary, len(names), dropout, seed, arguments)
        for dropout in map(float, arguments.dropouts.split(","))
    }
    dropout, (dev_accuracy, epoch, weights) = max(tried.items(), key=lambda item: item[1][0])
    seconds = time.perf_counter() - start
    model = Classifier(len(vocabulary), len(names), dropout, arguments.max_length)
    model.load_state_dict(weights)
    rows, labels = encoded(data.test)
    predicted = predict(model, rows)
    return {
        "set": data.name,
        "seed": seed,
        "accuracy": round(100 * accuracy_score(labels, predicted), 2),
        "macro_f1": round(100 * f1_score(labels, predicted, average="macro"), 2),
        "dev_accuracy": round(100 * dev_accuracy, 2),
        "dropout": dropout,
        "epoch": epoch,
        "parameters": sum(p.numel() for p in model.parameters()),
        "vocabulary": len(vocabulary),
        "train_seconds": round(seconds),
    }


def main():
    parser = labelled.parser(__doc__)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--dropouts", default="0.3", help="comma-separated; the best on the dev rows is kept")
    parser.add_argument("--epochs", type=int, default=20, help="maximum")
    parser.add_argument("--patience", type=int, default=3, help="epochs without a better one on the dev rows")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=5e-4)
    parser.add_argument("--max-length", type=int, default=512, help="tokens after which a text is truncated")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    for data in labelled.load_sets(arguments):
        reports = []
        for seed in map(int, arguments.seeds.split(",")):
            reports.append(run(data, seed, arguments))
            print(json.dumps(reports[-1]), flush=True)
        mean = {key: round(statistics.mean(r[key] for r in reports), 2) for key in ("accuracy", "macro_f1")}
        peer = {"peer": f"torch {torch.__version__}", "threads": arguments.threads, "processor": labelled.processor()}
        print(json.dumps({"set": data.name, "seed": "mean", **mean, **peer}), flush=True)


if __name__ == "__main__":
    main()
