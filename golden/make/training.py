"""Makes the golden files of training: ten steps of whole models in PyTorch, in float64. See ../README.md.

    python golden/make/training.py [FOLDER]      writes FOLDER/layers/*_training.safetensors; FOLDER is golden/ if left out
"""

import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from layers import case, check_same, encoder_module, main, offsets_of, sinusoidal_table, split


class Classifier(nn.Module):
    """Token embedding × √d + sinusoidal positions → pre-norm encoder → mean over each sequence → linear."""

    def __init__(self, vocabulary, d_model, d_ff, classes):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, d_model)
        self.encoder = encoder_module(d_model, d_ff, "gelu", norm_first=True, final_norm=True)
        self.head = nn.Linear(d_model, classes)

    def embed(self, ids):
        scaled = self.embedding(ids) * math.sqrt(self.embedding.embedding_dim)
        return scaled + sinusoidal_table(ids.shape[-1], scaled.shape[-1], scaled.dtype)

    def forward(self, ids, offsets):
        return torch.stack([self.head(self.encoder(self.embed(i)[None])[0].mean(0)) for i in split(ids, offsets)])

    def forward_padded(self, ids, offsets):
        """The same for a padded batch, as most programs would do it: only to check `forward`."""
        padded = nn.utils.rnn.pad_sequence(split(ids, offsets), batch_first=True)
        lengths = torch.tensor(np.diff(offsets))
        padding_mask = torch.arange(padded.shape[1])[None] >= lengths[:, None]
        encoded = self.encoder(self.embed(padded), src_key_padding_mask=padding_mask)
        return self.head(encoded.masked_fill(padding_mask[..., None], 0.0).sum(1) / lengths[:, None])


def ten_steps(c, model, loss_of):
    """Ten steps of AdamW with clipped gradients; `loss_of(step)` draws a batch and returns the loss, and in the first
    step what is to be recorded as logits."""
    c.attribute(lr=1e-3, beta1=0.9, beta2=0.98, eps=1e-8, weight_decay=0.01, max_grad_norm=1.0, steps=10)
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": 0.01},  # the embedding too
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},  # biases and norms
    ]
    optimiser = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.98), eps=1e-8)
    losses, norms = [], []
    for step in range(10):
        loss, logits = loss_of(step)
        optimiser.zero_grad()
        loss.backward()
        if step == 0:
            c.output("logits", logits)
            c.gradients()
        norms.append(nn.utils.clip_grad_norm_(parameters, 1.0))
        optimiser.step()
        losses.append(loss)
    c.output("losses", torch.stack(losses))
    c.output("grad_norms", torch.stack(norms))
    for name, parameter in model.named_parameters():
        c.output(f"final.{name}", parameter)


@case
def classifier_training(c):
    vocabulary, d_model, d_ff, classes = 50, 16, 32, 3
    c.attribute(vocabulary=vocabulary, d_model=d_model, heads=2, d_ff=d_ff, layers=2, classes=classes)
    c.attribute(norm="pre", activation="gelu", final_norm=True, pooling="mean", label_smoothing=0.1)
    c.attribute(dropout=0, layer_norm_eps=1e-5)
    model = c.module(Classifier(vocabulary, d_model, d_ff, classes))

    def loss_of(step):
        offsets = offsets_of([1 + c.integers(12) for _ in range(4)])
        ids = c.integer_input(f"step{step}.ids", c.integers(vocabulary, offsets[-1]))
        c.integer_input(f"step{step}.offsets", offsets)
        labels = c.integer_input(f"step{step}.labels", c.integers(classes, 4))
        logits = model(ids, offsets)
        check_same(model.forward_padded(ids, offsets), logits, "packed and padded")
        return F.cross_entropy(logits, labels, label_smoothing=0.1), logits

    ten_steps(c, model, loss_of)


class Translator(nn.Module):
    """An encoder-decoder over packed sequences, with its output tied to the target's embedding."""

    def __init__(self, source, target, d_model, d_ff):
        super().__init__()
        self.source_embedding, self.embedding = nn.Embedding(source, d_model), nn.Embedding(target, d_model)
        self.encoder = encoder_module(d_model, d_ff, "gelu", True, final_norm=True)
        layer = nn.TransformerDecoderLayer(
            d_model, 2, d_ff, dropout=0.0, activation="gelu", norm_first=True, batch_first=True
        )
        self.decoder = nn.TransformerDecoder(layer, 2, norm=nn.LayerNorm(d_model))

    def embed(self, embedding, ids):
        width = embedding.embedding_dim
        return embedding(ids) * math.sqrt(width) + sinusoidal_table(len(ids), width, embedding.weight.dtype)

    def forward(self, source, source_offsets, target, target_offsets):
        logits = []
        for x, y in zip(split(source, source_offsets), split(target, target_offsets)):
            memory = self.encoder(self.embed(self.source_embedding, x)[None])
            future = torch.ones(len(y), len(y)).triu(1).bool()
            out = self.decoder(self.embed(self.embedding, y)[None], memory, tgt_mask=future)[0]
            logits.append(out @ self.embedding.weight.T)
        return torch.cat(logits)


@case
def translator_training(c):
    source, target, d_model, d_ff = 30, 40, 16, 32
    c.attribute(source_vocabulary=source, target_vocabulary=target, d_model=d_model, heads=2, d_ff=d_ff, layers=2)
    c.attribute(norm="pre", activation="gelu", final_norm=True, tied=True, label_smoothing=0.1, dropout=0)
    model = c.module(Translator(source, target, d_model, d_ff))

    def loss_of(step):
        offsets = {side: offsets_of([1 + c.integers(9) for _ in range(4)]) for side in ("source", "target")}
        for side in offsets:
            c.integer_input(f"step{step}.{side}_offsets", offsets[side])
        x = c.integer_input(f"step{step}.source", c.integers(source, offsets["source"][-1]))
        given, wanted = (
            c.integer_input(f"step{step}.{name}", c.integers(target, offsets["target"][-1]))
            for name in ("input", "output")
        )
        logits = model(x, offsets["source"], given, offsets["target"])
        return F.cross_entropy(logits, wanted, label_smoothing=0.1), logits

    ten_steps(c, model, loss_of)


class LanguageModel(nn.Module):
    """A causal encoder over packed documents, with learned positions and its output tied to the embedding."""

    def __init__(self, vocabulary, context, d_model, d_ff):
        super().__init__()
        self.embedding, self.position = nn.Embedding(vocabulary, d_model), nn.Embedding(context, d_model)
        self.encoder = encoder_module(d_model, d_ff, "gelu", True, final_norm=True)

    def forward(self, ids, offsets):
        logits = []
        for x in split(ids, offsets):
            embedded = self.embedding(x) * math.sqrt(self.embedding.embedding_dim) + self.position.weight[: len(x)]
            future = torch.ones(len(x), len(x)).triu(1).bool()
            logits.append(self.encoder(embedded[None], mask=future)[0] @ self.embedding.weight.T)
        return torch.cat(logits)


@case
def language_model_training(c):
    vocabulary, context, d_model, d_ff = 40, 12, 16, 32
    c.attribute(vocabulary=vocabulary, context=context, d_model=d_model, heads=2, d_ff=d_ff, layers=2)
    c.attribute(norm="pre", activation="gelu", final_norm=True, tied=True, positions="learned", dropout=0)
    model = c.module(LanguageModel(vocabulary, context, d_model, d_ff))

    def loss_of(step):
        offsets = c.integer_input(f"step{step}.offsets", offsets_of([1 + c.integers(context) for _ in range(4)]))
        ids, wanted = (c.integer_input(f"step{step}.{name}", c.integers(vocabulary, offsets[-1])) for name in ("ids", "next"))
        logits = model(ids, offsets)
        return F.cross_entropy(logits, wanted), logits

    ten_steps(c, model, loss_of)


if __name__ == "__main__":
    main(["classifier_training", "language_model_training", "translator_training"])
