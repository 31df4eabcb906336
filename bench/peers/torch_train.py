"""The peer of `chumoku bench train` and `chumoku bench infer`: a transformer classifier in plain PyTorch.

    python torch_train.py                                        training, 4 layers, d_model 256, 32 x 128 tokens, f32
    python torch_train.py --precision bf16 --mode infer          autocast, forward pass only
    python torch_train.py --lengths lengths.txt --lengths-sorted --steps 0

It is written as a competent user would: PyTorch's encoder, a padding mask only for batches with padding, and the fused
optimizer. Prints one JSON object. The data is random, from a fixed seed.
"""

import argparse
import json
import math
import resource
import statistics
import time
from pathlib import Path

import torch
from torch import nn


class Classifier(nn.Module):
    """Token embedding · √d + sinusoidal positions → encoder (pre-norm, GELU) → mean over real tokens → linear."""

    def __init__(self, vocab, classes, layers, d_model, heads, dropout, max_length, d_ff=None):
        super().__init__()
        self.embedding = nn.Embedding(vocab, d_model)
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)
        self.register_buffer("positions", sinusoidal_positions(max_length, d_model))
        self.dropout = nn.Dropout(dropout)
        layer = nn.TransformerEncoderLayer(
            d_model, heads, d_ff or 4 * d_model, dropout, activation="gelu", norm_first=True, batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(d_model), enable_nested_tensor=False)
        self.head = nn.Linear(d_model, classes)

    def forward(self, ids, padding_mask):
        x = self.embedding(ids) * math.sqrt(self.embedding.embedding_dim) + self.positions[: ids.shape[1]]
        x = self.encoder(self.dropout(x), src_key_padding_mask=padding_mask)
        if padding_mask is None:
            return self.head(x.mean(1))
        real = (~padding_mask).unsqueeze(-1)
        return self.head((x * real).sum(1) / real.sum(1))


def sinusoidal_positions(max_length, d_model):
    position = torch.arange(max_length).unsqueeze(1)
    frequency = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
    table = torch.zeros(max_length, d_model)
    table[:, 0::2] = torch.sin(position * frequency)
    table[:, 1::2] = torch.cos(position * frequency)[:, : d_model // 2]
    return table


def batches_of_lengths(arguments):
    """One list of sequence lengths for each batch."""
    if arguments.lengths is None:
        return [[arguments.length] * arguments.batch for _ in range(8)]
    lengths = [int(line) for line in arguments.lengths.read_text().split()]
    if arguments.lengths_sorted:
        lengths.sort()
    batches = [lengths[i : i + arguments.batch] for i in range(0, len(lengths), arguments.batch)]
    if arguments.lengths_sorted:  # similar lengths together, but the batches in random order, as training wants them
        order = torch.randperm(len(batches), generator=torch.Generator().manual_seed(1))
        batches = [batches[i] for i in order]
    return batches


def random_batch(lengths, arguments, generator):
    """(ids, padding mask or None, labels, number of real tokens)"""
    lengths = torch.tensor(lengths)
    longest = int(lengths.max())
    ids = torch.randint(1, arguments.vocab, (len(lengths), longest), generator=generator)
    labels = torch.randint(0, arguments.classes, (len(lengths),), generator=generator)
    padding_mask = torch.arange(longest) >= lengths.unsqueeze(1)
    ids[padding_mask] = 0
    return ids, padding_mask if padding_mask.any() else None, labels, int(lengths.sum())


def make_optimizer(model):
    """Returns AdamW with weight decay on matrices only, fused if this PyTorch supports it on a CPU."""
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.01}, {"params": vectors, "weight_decay": 0.0}]
    settings = {"lr": 5e-4, "betas": (0.9, 0.98), "eps": 1e-8}
    try:
        return torch.optim.AdamW(groups, fused=True, **settings), True
    except RuntimeError:
        return torch.optim.AdamW(groups, **settings), False


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--d-model", type=int, default=256, help="the feed-forward width is 4 times this")
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--batch", type=int, default=32, help="sequences in a batch")
    parser.add_argument("--length", type=int, default=128, help="tokens in a sequence, without --lengths")
    parser.add_argument("--lengths", type=Path, help="file with one sequence length per line")
    parser.add_argument("--lengths-sorted", action="store_true", help="put sequences of similar length into a batch")
    parser.add_argument("--vocab", type=int, default=8000)
    parser.add_argument("--classes", type=int, default=4)
    parser.add_argument("--steps", type=int, default=20, help="timed batches; 0: every batch of --lengths once")
    parser.add_argument("--warmup", type=int, default=3, help="batches before the clock starts")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32", help="bf16 is autocast")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--mode", choices=["train", "infer"], default="train")
    parser.add_argument("--compile", action="store_true", help="torch.compile; needs a C++ compiler")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    lengths = batches_of_lengths(arguments)
    steps = arguments.steps or len(lengths)
    data = [random_batch(batch, arguments, generator) for batch in lengths[: max(steps, arguments.warmup)]]

    model = Classifier(
        arguments.vocab,
        arguments.classes,
        arguments.layers,
        arguments.d_model,
        arguments.heads,
        arguments.dropout,
        max_length=max(map(max, lengths)),
    )
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer, fused = make_optimizer(model)
    run = torch.compile(model) if arguments.compile else model

    def train(ids, padding_mask, labels):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=arguments.precision == "bf16"):
            loss = criterion(run(ids, padding_mask), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    @torch.inference_mode()
    def infer(ids, padding_mask, labels):
        with torch.autocast("cpu", torch.bfloat16, enabled=arguments.precision == "bf16"):
            return run(ids, padding_mask).sum().item()

    step = train if arguments.mode == "train" else infer
    model.train(arguments.mode == "train")
    for i in range(arguments.warmup):
        step(*data[i % len(data)][:3])
    milliseconds, tokens = [], []
    for i in range(steps):
        *batch, real_tokens = data[i % len(data)]
        start = time.perf_counter()
        result = step(*batch)
        milliseconds.append((time.perf_counter() - start) * 1e3)
        tokens.append(real_tokens)
        assert math.isfinite(result), f"step {i} gave {result}"

    median = statistics.median(milliseconds)
    if arguments.lengths is None:
        tokens_per_second = tokens[0] / median * 1e3
    else:  # batches differ in size, so only the whole run gives the speed
        tokens_per_second = sum(tokens) / sum(milliseconds) * 1e3
    report = {
        "tokens_per_second": round(tokens_per_second, 1),
        "median_ms": round(median, 3),
        "min_ms": round(min(milliseconds), 3),
        "max_ms": round(max(milliseconds), 3),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "real_tokens": sum(tokens),
        "padded_tokens": sum(data[i % len(data)][0].numel() for i in range(steps)),
        "parameters": sum(p.numel() for p in model.parameters()),
        "peer": "torch",
        "version": torch.__version__,
        "threads": torch.get_num_threads(),
        "fused_optimizer": fused,
        "settings": {key: str(value) if isinstance(value, Path) else value for key, value in vars(arguments).items()},
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
