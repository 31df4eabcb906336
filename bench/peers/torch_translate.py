"""The peer of `chumoku train --task translate`: an encoder-decoder in plain PyTorch.

    python torch_translate.py chumoku-model train.ja,train.en test.ja,test.en --updates 3000

It has the size of the model in the folder, its tokenizers, its token budget per batch and its number of updates. It is
written as a competent user would: PyTorch's layers, batches of similar lengths with padding, bf16 autocast, the fused
optimizer, beam search without a cache. Prints one JSON object.
"""

import argparse
import json
import math
import random
import time
from pathlib import Path

import sacrebleu
import torch
from tokenizers import Tokenizer
from torch import nn

BOUNDARY, PADDING = 0, -1


class Translator(nn.Module):
    """nn.Transformer (pre-norm, GELU) between embeddings · √d + sinusoidal positions and the tied output layer."""

    def __init__(self, config, max_length=512):
        super().__init__()
        d_model = config["d_model"]
        self.target = nn.Embedding(config["target_vocab_size"], d_model)
        self.source = self.target
        if not config["joint_vocabulary"]:
            self.source = nn.Embedding(config["source_vocab_size"], d_model)
        for embedding in (self.target, self.source):
            nn.init.normal_(embedding.weight, std=d_model**-0.5)
        position = torch.arange(max_length).unsqueeze(1)
        frequency = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        table = torch.zeros(max_length, d_model)
        table[:, 0::2], table[:, 1::2] = torch.sin(position * frequency), torch.cos(position * frequency)
        self.register_buffer("positions", table)
        self.dropout = nn.Dropout(config["embedding_dropout"])
        self.transformer = nn.Transformer(
            d_model,
            config["num_heads"],
            config["num_layers"],
            config["num_decoder_layers"],
            config["d_ff"],
            config["dropout"],
            activation="gelu",
            norm_first=True,
            batch_first=True,
        )

    def embed(self, embedding, ids):
        x = embedding(ids.clamp(min=0)) * math.sqrt(embedding.embedding_dim) + self.positions[: ids.shape[1]]
        return self.dropout(x)

    def encode(self, source):
        return self.transformer.encoder(self.embed(self.source, source), src_key_padding_mask=source == PADDING)

    def decode(self, memory, source, target):
        """(sequences, target tokens, d_model)"""
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1]).isinf()
        return self.transformer.decoder(
            self.embed(self.target, target),
            memory,
            tgt_mask=causal,
            tgt_key_padding_mask=target == PADDING,
            memory_key_padding_mask=source == PADDING,
            tgt_is_causal=True,
        )

    def forward(self, source, target):
        return nn.functional.linear(self.decode(self.encode(source), source, target), self.target.weight)


def padded(sequences):
    longest = max(map(len, sequences))
    return torch.tensor([ids + [PADDING] * (longest - len(ids)) for ids in sequences])


def batches(pairs, budget):
    """Yields batches of pairs of similar length with `budget` real tokens, in random order."""
    pairs = random.sample(pairs, len(pairs))
    mean = sum(len(source) + len(target) for source, target in pairs) / len(pairs)
    stretch, found = int(16 * budget / mean), []
    for first in range(0, len(pairs), stretch):
        batch, tokens = [], 0
        for pair in sorted(pairs[first : first + stretch], key=lambda pair: len(pair[0]) + len(pair[1])):
            size = len(pair[0]) + len(pair[1]) + 1
            if batch and tokens + size > budget:
                found.append(batch)
                batch, tokens = [], 0
            batch.append(pair)
            tokens += size
        found.append(batch)
    return random.sample(found, len(found))


@torch.inference_mode()
def beam_search(model, source, beam=5, alpha=0.6):
    """Returns the best target of each source, by log-probability divided by the length penalty of Wu et al. (2016)."""
    count, limit = len(source), 2 * source.shape[1] + 20
    memory = model.encode(source).repeat_interleave(beam, 0)
    source = source.repeat_interleave(beam, 0)
    ids = torch.zeros(count * beam, 1, dtype=torch.long)
    scores = torch.full((count, beam), -math.inf)
    scores[:, 0] = 0.0
    found = [[] for _ in range(count)]
    for length in range(1, limit + 1):
        y = model.decode(memory, source, ids)[:, -1]
        log_p = nn.functional.linear(y, model.target.weight).float().log_softmax(-1)
        vocabulary = log_p.shape[-1]
        best, places = (scores.view(-1, 1) + log_p).view(count, -1).topk(2 * beam)
        rows, tokens = places // vocabulary, places % vocabulary
        next_rows, next_tokens = [], []
        for i in range(count):
            kept = 0
            for rank in range(2 * beam):
                row, token, score = i * beam + rows[i, rank].item(), tokens[i, rank].item(), best[i, rank].item()
                if token == BOUNDARY or length == limit:
                    if rank < beam:
                        found[i].append((score / ((5 + length) / 6) ** alpha, ids[row, 1:].tolist()))
                elif kept < beam:
                    next_rows.append(row)
                    next_tokens.append(token)
                    scores[i, kept] = score
                    kept += 1
            if kept < beam:
                next_rows += [i * beam] * (beam - kept)
                next_tokens += [BOUNDARY] * (beam - kept)
                scores[i, kept:] = -math.inf
        if all(len(hypotheses) >= beam for hypotheses in found):
            break
        rows = torch.tensor(next_rows)
        ids = torch.cat([ids[rows], torch.tensor(next_tokens).unsqueeze(1)], 1)
    return [max(hypotheses)[1] for hypotheses in found]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a model folder of Chumoku, for sizes, settings and tokenizers")
    parser.add_argument("train", help="two files with a comma between them")
    parser.add_argument("test", help="two files with a comma between them")
    parser.add_argument("--updates", type=int, help="number of updates (default: those of the model in the folder)")
    parser.add_argument("--precision", choices=["f32", "bf16"], default="bf16")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    random.seed(arguments.seed)

    config = json.loads((arguments.folder / "config.json").read_text())
    metrics = json.loads((arguments.folder / "metrics.json").read_text())
    plan, updates = metrics["plan"], arguments.updates or metrics["steps"]
    writer = Tokenizer.from_file(str(arguments.folder / "tokenizer.json"))
    reader = writer
    if not config["joint_vocabulary"]:
        reader = Tokenizer.from_file(str(arguments.folder / "source_tokenizer.json"))

    def read(names):
        sources, targets = (Path(name).read_text().splitlines() for name in names.split(","))
        ids = [[e.ids for e in t.encode_batch(texts, add_special_tokens=False)] for t, texts in ((reader, sources), (writer, targets))]
        return [(source + [BOUNDARY], target) for source, target in zip(*ids)], targets

    pairs, _ = read(arguments.train)
    model = Translator(config)
    # Matrices decay, biases and norms do not.
    groups = [{"params": [p for p in model.parameters() if (p.dim() > 1) == decays]} for decays in (True, False)]
    groups[1]["weight_decay"] = 0.0
    optimizer = torch.optim.AdamW(
        groups, plan["learning_rate"], (0.9, plan["beta2"]), weight_decay=plan["weight_decay"], fused=True
    )
    warmup = max(1, int(updates * plan["warmup_share"]))

    def rate(step):
        if step < warmup:
            return (step + 1) / warmup
        return 0.05 + 0.95 * (1 + math.cos(math.pi * (step - warmup) / max(1, updates - warmup))) / 2

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=arguments.precision == "bf16")
    done = tokens = 0
    start = time.perf_counter()
    while done < updates:
        for batch in batches(pairs, plan["batch_tokens"]):
            if done == updates:
                break
            source = padded([source for source, _ in batch])
            inputs = padded([[BOUNDARY] + target for _, target in batch])
            outputs = padded([target + [BOUNDARY] for _, target in batch])
            with autocast:
                logits = model(source, inputs)
            loss = nn.functional.cross_entropy(
                logits.flatten(0, 1).float(),
                outputs.flatten(),
                ignore_index=PADDING,
                label_smoothing=plan["label_smoothing"],
            )
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), plan["clip_norm"])
            optimizer.step()
            schedule.step()
            done += 1
            tokens += sum(len(source) + len(target) + 1 for source, target in batch)
            if done % 100 == 0:
                speed = tokens / (time.perf_counter() - start)
                print(f"update {done} of {updates}  loss {loss.item():.3f}  {speed:,.0f} tokens/s", flush=True)
    seconds = time.perf_counter() - start

    model.eval()
    tests, references = read(arguments.test)
    order = sorted(range(len(tests)), key=lambda i: len(tests[i][0]))
    translations = [""] * len(tests)
    for first in range(0, len(order), 50):
        rows = order[first : first + 50]
        for i, ids in zip(rows, beam_search(model, padded([tests[i][0] for i in rows]))):
            translations[i] = writer.decode(ids)
    tokenize = "char" if arguments.test.endswith((".ja", ".zh")) else "13a"
    bleu = sacrebleu.BLEU(tokenize=tokenize)
    score = bleu.corpus_score(translations, [references])
    chrf = sacrebleu.CHRF().corpus_score(translations, [references])
    result = {
        "library": f"torch {torch.__version__}",
        "precision": arguments.precision,
        "threads": arguments.threads,
        "parameters": sum(p.numel() for p in model.parameters()),
        "updates": updates,
        "seconds": round(seconds, 1),
        "tokens_per_second": round(tokens / seconds),
        "bleu": round(score.score, 2),
        "signature": str(bleu.get_signature()),
        "chrf": round(chrf.score, 2),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
