"""Makes the golden files of the layers: PyTorch's outputs and gradients in float64. See ../README.md.

    python golden/make/layers.py [FOLDER]      writes FOLDER/layers/*.safetensors; FOLDER is golden/ if left out

Activations are packed: sequences of lengths 5, 1 and 3 are one (9, d) array with offsets [0, 5, 6, 9]. Each sequence
goes through the torch module on its own and the results are concatenated; `check_against_padding` proves that a padded
batch gives the same.
"""

import math
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from recorder import Case, distance, to_bytes

LENGTHS = [5, 1, 3]
TOLERANCE = 1e-5  # the rule of README.md, which PyTorch's own float32 must pass
CASES = {}


def case(function=None, /, *, name=None, **settings):
    """Registers a case under its function's name, or under `name` with settings passed on to the function."""

    def register(function):
        CASES[name or function.__name__] = lambda c: function(c, **settings)
        return function

    return register(function) if function else register


# Packed sequences


def offsets_of(lengths):
    return [0, *np.cumsum(lengths).tolist()]


def split(x, offsets):
    """The sequences of a packed array, one by one."""
    return [x[start:end] for start, end in zip(offsets[:-1], offsets[1:])]


def packed_input(c, width, name="x", lengths=LENGTHS, offsets_name="offsets"):
    """A packed input of normal numbers and its offsets."""
    offsets = offsets_of(lengths)
    c.integer_input(offsets_name, offsets)
    return c.input(name, c.normal(offsets[-1], width)), offsets


def check_same(got, want, what):
    """Two ways to the same result must agree to rounding."""
    limit = 1e-12 if got.dtype == torch.float64 else 1e-5
    assert torch.allclose(got, want, rtol=limit, atol=limit), f"{what}: {(got - want).abs().max()}"


def check_against_padding(run, x, offsets, packed_output):
    """`run(padded, padding_mask)` must give for a padded batch what the packed run gave."""
    sequences = split(x.detach(), offsets)
    padded = nn.utils.rnn.pad_sequence(sequences, batch_first=True, padding_value=7.0)
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    padding_mask = torch.arange(padded.shape[1])[None] >= lengths[:, None]
    with torch.no_grad():
        output = run(padded, padding_mask)
    check_same(output[~padding_mask], packed_output, "packed and padded")


# Linear, embedding, positions


@case(name="linear", bias=True)
@case(name="linear_no_bias", bias=False)
def linear(c, bias):
    x = c.input("x", c.normal(9, 6))
    module = c.module(nn.Linear(6, 5, bias=bias))
    y = module(x)
    c.output("output", y)
    c.backward(y)


@case
def embedding(c):
    d_model = 8
    c.attribute(d_model=d_model, scale=math.sqrt(d_model))
    ids = c.integer_input("ids", [3, 0, 3, 9, 5, 3, 0, 1, 9])
    y = c.module(nn.Embedding(10, d_model))(ids) * math.sqrt(d_model)
    c.output("output", y)
    c.backward(y)


def sinusoidal_table(max_length, d_model, dtype):
    """Vaswani et al. 2017: sin(position / 10000^(2i/d)) in column 2i, the cosine of the same in column 2i + 1."""
    position = torch.arange(max_length, dtype=torch.float64)[:, None]
    column = torch.arange(d_model)[None]
    angle = position / 10000.0 ** ((column - column % 2).double() / d_model)
    return torch.where(column % 2 == 0, angle.sin(), angle.cos()).to(dtype)


def positions_of(offsets):
    """Positions start at 0 in every sequence."""
    return torch.cat([torch.arange(end - start) for start, end in zip(offsets[:-1], offsets[1:])])


@case(name="position_sinusoidal", d_model=8)
@case(name="position_sinusoidal_odd", d_model=7)
def position_sinusoidal(c, d_model):
    c.attribute(max_length=20, d_model=d_model, base=10000)
    x, offsets = packed_input(c, d_model)
    table = sinusoidal_table(20, d_model, c.dtype)
    y = x + table[positions_of(offsets)]
    c.output("table", table)
    c.output("output", y)
    c.backward(y)


@case
def position_learned(c):
    c.attribute(max_length=20, d_model=8)
    x, offsets = packed_input(c, 8)
    y = x + c.module(nn.Embedding(20, 8))(positions_of(offsets))
    c.output("output", y)
    c.backward(y)


# Norm, activations, softmax, loss


@case(name="layer_norm")
@case(name="layer_norm_low_variance", scale=1e-3)
def layer_norm(c, scale=1.0):
    c.attribute(eps=1e-5)
    values = c.normal(9, 8, scale=scale)  # with the small scale, eps exceeds the variance
    if scale == 1.0:
        values[4] = values[4] * 10.0 + 20.0
    else:
        values[4] = 0.5  # no variance: the output is the bias
    x = c.input("x", values)
    y = c.module(nn.LayerNorm(8, eps=1e-5))(x)
    c.output("output", y)
    c.backward(y)


@case(name="gelu", function=F.gelu)
@case(name="gelu_tanh", function=lambda x: F.gelu(x, approximate="tanh"))
@case(name="relu", function=F.relu)
def activation(c, function):
    x = c.input("x", np.linspace(-6.0, 6.0, 97))  # 0 is among them
    y = function(x)
    c.output("output", y)
    c.backward(y)


@case
def softmax(c):
    values = c.normal(6, 5)
    values[2] += 1000.0
    values[3] *= 50.0
    values[4, 1] = -np.inf
    x = c.input("x", values)
    y = F.softmax(x, dim=-1)
    c.output("output", y)
    c.output("log_sum_exp", x.logsumexp(dim=-1))
    c.backward(y)


@case(name="cross_entropy", label_smoothing=0.0, weighted=False)
@case(name="cross_entropy_label_smoothing", label_smoothing=0.1, weighted=False)
@case(name="cross_entropy_class_weights", label_smoothing=0.0, weighted=True)
@case(name="cross_entropy_label_smoothing_class_weights", label_smoothing=0.1, weighted=True)
def cross_entropy(c, label_smoothing, weighted):
    c.attribute(label_smoothing=label_smoothing, reduction="mean")
    values = c.normal(6, 4)
    values[1] += 100.0
    values[2, 0] = 40.0
    logits = c.input("logits", values)
    labels = c.integer_input("labels", [2, 0, 1, 3, 3, 0])
    weight = c.input("class_weights", [0.5, 2.0, 1.0, 3.0], gradient=False) if weighted else None
    losses = {
        reduction: F.cross_entropy(logits, labels, weight, label_smoothing=label_smoothing, reduction=reduction)
        for reduction in ("mean", "sum", "none")
    }
    c.output("loss", losses["mean"].reshape(1))
    c.output("loss_sum", losses["sum"].reshape(1))
    c.output("loss_per_row", losses["none"])
    losses["mean"].backward()
    c.gradients()


# Attention


def attention(query, key, value, heads, allowed=None, bias=None):
    """One sequence: query (L, H·D), key (S, H·D), value (S, H·D_v) → output, weights (H, L, S), log-sum-exp (H, L).

    A row with nothing to attend to gives output 0, weights 0, gradients 0 and log-sum-exp −∞; PyTorch gives NaN on
    some of its paths, so the formula is written out here, and compared with PyTorch's on all other rows.
    """
    q, k, v = (x.unflatten(-1, (heads, -1)).transpose(0, 1) for x in (query, key, value))
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if bias is not None:
        scores = scores + bias
    if allowed is None:
        allowed = torch.ones(scores.shape[-2:], dtype=torch.bool)
    alive = allowed.any(-1, keepdim=True)
    scores = scores.masked_fill(~allowed, -math.inf)
    log_sum_exp = scores.logsumexp(-1) if len(key) else torch.full(scores.shape[:-1], -math.inf, dtype=scores.dtype)
    weights = F.softmax(scores.masked_fill(~alive, 0.0), dim=-1) * alive
    output = (weights @ v).transpose(0, 1).flatten(-2)

    mask = torch.zeros_like(scores).masked_fill(~allowed, -math.inf) + (0.0 if bias is None else bias)
    if len(key):
        theirs = F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=mask[None])[0]
        live = alive[:, 0]
        check_same(theirs.transpose(0, 1).flatten(-2)[live], output[live], "formula and PyTorch's attention")
    return output, weights, log_sum_exp


def attention_case(c, query, key, value, query_offsets, key_offsets, heads, allowed=None, bias=None, causal=False):
    """Attention over packed sequences; a mask is read from its top-left corner in every sequence."""
    results = []
    for q, k, v in zip(split(query, query_offsets), split(key, key_offsets), split(value, key_offsets)):
        corner = (slice(len(q)), slice(len(k)))
        mask = torch.ones(len(q), len(k)).tril().bool() if causal else None if allowed is None else allowed[corner]
        results.append(attention(q, k, v, heads, mask, None if bias is None else bias[corner]))
    outputs, weights, log_sum_exps = zip(*results)
    head_dim, value_dim = query.shape[1] // heads, value.shape[1] // heads
    c.attribute(heads=heads, head_dim=head_dim, value_dim=value_dim, scale=1 / math.sqrt(head_dim))
    c.attribute(causal="top_left" if causal else "none")
    output = torch.cat(outputs)
    c.output("output", output)
    c.output("weights", torch.cat([w.flatten() for w in weights]))
    c.output("log_sum_exp", torch.cat(log_sum_exps, dim=1))
    c.backward(output)


# Row 2 attends to nothing; row 0 does not attend to key 0, so the sequence of length 1 attends to nothing either.
BOOL_MASK = [[0, 1, 0, 1, 1], [1, 1, 0, 0, 1], [0, 0, 0, 0, 0], [0, 0, 1, 1, 0], [1, 1, 1, 1, 1]]


@case(name="attention_plain")
@case(name="attention_causal", causal=True)
@case(name="attention_mask_bool", mask="bool")
@case(name="attention_mask_additive", mask="additive")
def attention_self(c, causal=False, mask=None):
    offsets = offsets_of(LENGTHS)
    c.integer_input("offsets", offsets)
    query, key, value = (c.input(name, c.normal(offsets[-1], 8)) for name in ("query", "key", "value"))
    allowed = c.mask_input("mask", BOOL_MASK) if mask == "bool" else None
    bias = c.input("mask", c.normal(5, 5, scale=2.0), gradient=False) if mask == "additive" else None
    c.attribute(mask=mask or "none")
    attention_case(c, query, key, value, offsets, offsets, 2, allowed, bias, causal)


@case(name="attention_cross", query_lengths=[4, 1, 3], key_lengths=[2, 5, 1])
@case(name="attention_cross_empty", query_lengths=[2, 3, 0, 1], key_lengths=[4, 0, 2, 1])
def attention_cross(c, query_lengths, key_lengths):
    query, query_offsets = packed_input(c, 8, "query", query_lengths, "query_offsets")
    key, key_offsets = packed_input(c, 8, "key", key_lengths, "key_offsets")
    value = c.input("value", c.normal(key_offsets[-1], 6))
    c.attribute(mask="none")
    attention_case(c, query, key, value, query_offsets, key_offsets, 2)


# Multi-head attention, feed-forward, encoder


@case(name="mha_self")
@case(name="mha_self_no_bias", bias=False)
@case(name="mha_causal", causal=True)
def mha_self(c, bias=True, causal=False):
    c.attribute(d_model=8, heads=2, bias=bias, causal="top_left" if causal else "none")
    x, offsets = packed_input(c, 8)
    module = c.module(nn.MultiheadAttention(8, 2, bias=bias, batch_first=True))

    def run(x, padding_mask=None):
        length = x.shape[-2]
        future = torch.ones(length, length).triu(1).bool() if causal else None  # PyTorch: true = do not attend
        return module(x, x, x, attn_mask=future, key_padding_mask=padding_mask, average_attn_weights=False)

    outputs, weights = zip(*(run(sequence) for sequence in split(x, offsets)))
    y = torch.cat(outputs)
    check_against_padding(lambda x, mask: run(x, mask)[0], x, offsets, y)
    c.output("output", y)
    c.output("weights", torch.cat([w.flatten() for w in weights]))
    c.backward(y)


@case
def mha_cross(c):
    c.attribute(d_model=8, heads=2, bias=True, key_dim=6, value_dim=5, causal="none")
    query, query_offsets = packed_input(c, 8, "query", [4, 1, 3], "query_offsets")
    key, key_offsets = packed_input(c, 6, "key", [2, 5, 1], "key_offsets")
    value = c.input("value", c.normal(key_offsets[-1], 5))
    module = c.module(nn.MultiheadAttention(8, 2, kdim=6, vdim=5, batch_first=True))
    sequences = zip(split(query, query_offsets), split(key, key_offsets), split(value, key_offsets))
    outputs, weights = zip(*(module(q, k, v, average_attn_weights=False) for q, k, v in sequences))
    y = torch.cat(outputs)
    c.output("output", y)
    c.output("weights", torch.cat([w.flatten() for w in weights]))
    c.backward(y)


# Variants of multi-head attention


def rotated(x):
    """(heads, length, dim) turned by position · 10000^(-2i/dim), the pairs half the width apart as in Llama.

    Written with complex numbers, of which a pair is one: nothing in common with how Chumoku does it.
    """
    half = x.shape[-1] // 2
    angle = torch.arange(x.shape[-2], dtype=torch.float64)[:, None] * 10000.0 ** -(torch.arange(half) / half)
    turn = torch.polar(torch.ones_like(angle), angle).to(torch.complex64 if x.dtype == torch.float32 else torch.complex128)
    y = torch.complex(x[..., :half].contiguous(), x[..., half:].contiguous()) * turn
    return torch.cat([y.real, y.imag], dim=-1)


def alibi_slopes(heads):
    """As in the program of Press et al. 2022 (attention_with_linear_biases, fairseq/models/transformer.py)."""

    def of_power(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    if math.log2(heads).is_integer():
        return of_power(heads)
    below = 2 ** math.floor(math.log2(heads))
    return of_power(below) + alibi_slopes(2 * below)[0::2][: heads - below]


class AttentionVariant(nn.Module):
    """Multi-head attention from torch's own operations, with parameters named as in `nn.MultiheadAttention`."""

    def __init__(self, d_model, heads, key_heads=None, key_dim=None, value_dim=None, causal=False, window=None,
                 position=None, beta=None, train_beta=False, hard=False):
        super().__init__()
        self.heads, self.key_heads, self.dim = heads, key_heads or heads, d_model // heads
        self.causal, self.window, self.position, self.hard = causal, window, position, hard
        self.scale = beta or self.dim**-0.5
        shared = self.key_heads * self.dim
        if key_dim is None:
            self.in_proj_weight = nn.Parameter(torch.empty(d_model + 2 * shared, d_model))
        else:
            self.q_proj_weight = nn.Parameter(torch.empty(d_model, d_model))
            self.k_proj_weight = nn.Parameter(torch.empty(shared, key_dim))
            self.v_proj_weight = nn.Parameter(torch.empty(shared, value_dim))
        self.in_proj_bias = nn.Parameter(torch.empty(d_model + 2 * shared))
        self.beta = nn.Parameter(torch.empty(heads)) if train_beta else None
        self.out_proj = nn.Linear(d_model, d_model)

    def mask(self, length, keys, dtype):
        """What is added to the scores: (heads, length, keys)."""
        distance = torch.arange(length)[:, None] - torch.arange(keys)[None]
        forbidden = torch.zeros(length, keys, dtype=torch.bool)
        if self.causal:
            forbidden |= distance < 0
        if self.window is not None:
            forbidden |= distance.abs() > self.window
        mask = torch.zeros(self.heads, length, keys, dtype=dtype)
        if self.position == "alibi":
            mask -= torch.tensor(alibi_slopes(self.heads), dtype=dtype)[:, None, None] * distance.abs()
        return mask.masked_fill(forbidden, -math.inf)

    def forward(self, query, key, value):
        widths = [self.heads * self.dim, self.key_heads * self.dim, self.key_heads * self.dim]
        fused = getattr(self, "in_proj_weight", None)
        parts = [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight] if fused is None else fused.split(widths)
        inputs = zip((query, key, value), parts, self.in_proj_bias.split(widths))
        q, k, v = (F.linear(x, w, b).unflatten(-1, (-1, self.dim)).transpose(0, 1) for x, w, b in inputs)
        if self.position == "rotary":
            q, k = rotated(q), rotated(k)
        if self.beta is not None:
            q = q * self.beta[:, None, None]
        mask = self.mask(len(query), len(key), q.dtype)
        k, v = (x.repeat_interleave(self.heads // self.key_heads, dim=0) for x in (k, v))
        weights = F.softmax(self.scale * q @ k.transpose(-1, -2) + mask, dim=-1)
        if self.hard:
            one_hot = F.one_hot(weights.argmax(-1), weights.shape[-1]).to(weights.dtype)
            weights = one_hot + weights - weights.detach()  # the straight-through estimator
        y = weights @ v
        if not self.hard:
            theirs = F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=mask[None], scale=self.scale)
            check_same(theirs[0], y, "formula and PyTorch's attention")
        return self.out_proj(y.transpose(0, 1).flatten(-2)), weights


@case(name="mha_gqa", heads=4, key_heads=2)
@case(name="mha_mqa_causal", heads=4, key_heads=1, causal=True)
@case(name="mha_window", heads=2, window=1)
@case(name="mha_window_causal", heads=2, window=2, causal=True)
@case(name="mha_rotary", heads=2, position="rotary")
@case(name="mha_rotary_gqa_causal", heads=4, key_heads=2, position="rotary", causal=True)
@case(name="mha_alibi", heads=4, position="alibi")
@case(name="mha_alibi_causal", heads=6, position="alibi", causal=True)
@case(name="mha_beta", heads=2, beta=0.3)
@case(name="mha_beta_trained", heads=4, beta=0.8, train_beta=True)
@case(name="mha_beta_trained_rotary", heads=4, key_heads=2, train_beta=True, position="rotary", causal=True)
@case(name="mha_hard", heads=2, hard=True)
@case(name="mha_hard_causal", heads=4, key_heads=2, hard=True, causal=True, position="alibi", train_beta=True)
def mha_variant(c, heads, **options):
    d_model = 4 * heads
    c.attribute(d_model=d_model, heads=heads, **options)
    x, offsets = packed_input(c, d_model)
    module = c.module(AttentionVariant(d_model, heads, **options))
    outputs, weights = zip(*(module(sequence, sequence, sequence) for sequence in split(x, offsets)))
    y = torch.cat(outputs)
    c.output("output", y)
    c.output("weights", torch.cat([w.flatten() for w in weights]))
    c.backward(y)


@case(name="mha_gqa_cross", heads=4, key_heads=2)
@case(name="mha_mqa_cross_widths", heads=4, key_heads=1, key_dim=6, value_dim=5, train_beta=True)
def mha_variant_cross(c, heads, **options):
    c.attribute(d_model=16, heads=heads, **options)
    query, query_offsets = packed_input(c, 16, "query", [4, 1, 3], "query_offsets")
    key, key_offsets = packed_input(c, options.get("key_dim", 16), "key", [2, 5, 1], "key_offsets")
    value = c.input("value", c.normal(key_offsets[-1], options.get("value_dim", 16)))
    module = c.module(AttentionVariant(16, heads, **options))
    sequences = zip(split(query, query_offsets), split(key, key_offsets), split(value, key_offsets))
    outputs, weights = zip(*(module(q, k, v) for q, k, v in sequences))
    y = torch.cat(outputs)
    c.output("output", y)
    c.output("weights", torch.cat([w.flatten() for w in weights]))
    c.backward(y)


@case(name="feed_forward_relu", activation=F.relu)
@case(name="feed_forward_gelu", activation=F.gelu)
def feed_forward(c, activation):
    c.attribute(d_model=8, d_ff=16, activation=activation.__name__)
    x = c.input("x", c.normal(9, 8))
    module = c.module(nn.ModuleDict({"linear1": nn.Linear(8, 16), "linear2": nn.Linear(16, 8)}))
    y = module["linear2"](activation(module["linear1"](x)))
    c.output("output", y)
    c.backward(y)


def encoder_layer_module(d_model, d_ff, activation, norm_first):
    return nn.TransformerEncoderLayer(
        d_model, 2, d_ff, dropout=0.0, activation=activation, norm_first=norm_first, batch_first=True
    )


def encoder_module(d_model, d_ff, activation, norm_first, final_norm):
    layer = encoder_layer_module(d_model, d_ff, activation, norm_first)
    norm = nn.LayerNorm(d_model) if final_norm else None
    return nn.TransformerEncoder(layer, 2, norm=norm, enable_nested_tensor=False)


def encoder_case(c, module):
    """Runs a module on packed sequences of width 8."""
    c.attribute(d_model=8, heads=2, d_ff=16, layer_norm_eps=1e-5)
    x, offsets = packed_input(c, 8)
    module = c.module(module)
    y = torch.cat([module(sequence[None])[0] for sequence in split(x, offsets)])
    check_against_padding(lambda x, mask: module(x, src_key_padding_mask=mask), x, offsets, y)
    c.output("output", y)
    c.backward(y)


@case(name="encoder_layer_post_relu", norm="post", activation="relu")
@case(name="encoder_layer_post_gelu", norm="post", activation="gelu")
@case(name="encoder_layer_pre_relu", norm="pre", activation="relu")
@case(name="encoder_layer_pre_gelu", norm="pre", activation="gelu")
def encoder_layer(c, norm, activation):
    c.attribute(norm=norm, activation=activation)
    encoder_case(c, encoder_layer_module(8, 16, activation, norm == "pre"))


@case(name="encoder_pre", norm="pre", activation="gelu")
@case(name="encoder_post", norm="post", activation="relu")
def encoder(c, norm, activation):
    c.attribute(norm=norm, activation=activation, layers=2, final_norm=norm == "pre")
    encoder_case(c, encoder_module(8, 16, activation, norm == "pre", final_norm=norm == "pre"))


# Decoder


def decoder_case(c, module):
    """Runs a module on packed targets of width 8, each attending to a source of another length."""
    c.attribute(d_model=8, heads=2, d_ff=16, layer_norm_eps=1e-5)
    x, offsets = packed_input(c, 8)
    memory, memory_offsets = packed_input(c, 8, "memory", [2, 6, 1], "memory_offsets")
    module = c.module(module)

    def run(x, memory, padding_mask=None, memory_mask=None):
        future = torch.ones(x.shape[-2], x.shape[-2]).triu(1).bool()  # PyTorch: true = do not attend
        masks = {"tgt_key_padding_mask": padding_mask, "memory_key_padding_mask": memory_mask}
        return module(x, memory, tgt_mask=future, **masks)

    pairs = zip(split(x, offsets), split(memory, memory_offsets))
    y = torch.cat([run(target[None], source[None])[0] for target, source in pairs])
    sources = split(memory.detach(), memory_offsets)
    padded = nn.utils.rnn.pad_sequence(sources, batch_first=True, padding_value=7.0)
    lengths = torch.tensor([len(source) for source in sources])
    memory_mask = torch.arange(padded.shape[1])[None] >= lengths[:, None]
    check_against_padding(lambda x, mask: run(x, padded, mask, memory_mask), x, offsets, y)
    c.output("output", y)
    c.backward(y)


def decoder_layer_module(activation, norm_first):
    return nn.TransformerDecoderLayer(
        8, 2, 16, dropout=0.0, activation=activation, norm_first=norm_first, batch_first=True
    )


@case(name="decoder_layer_post_relu", norm="post", activation="relu")
@case(name="decoder_layer_pre_gelu", norm="pre", activation="gelu")
def decoder_layer(c, norm, activation):
    c.attribute(norm=norm, activation=activation)
    decoder_case(c, decoder_layer_module(activation, norm == "pre"))


@case(name="decoder_pre", norm="pre", activation="gelu")
@case(name="decoder_post", norm="post", activation="relu")
def decoder(c, norm, activation):
    c.attribute(norm=norm, activation=activation, layers=2, final_norm=norm == "pre")
    final = nn.LayerNorm(8) if norm == "pre" else None
    decoder_case(c, nn.TransformerDecoder(decoder_layer_module(activation, norm == "pre"), 2, norm=final))


# Recurrent networks


RECURRENT_LENGTHS = [5, 1, 0, 3]


@case(name="rnn", network=nn.RNN)
@case(name="lstm", network=nn.LSTM)
@case(name="gru", network=nn.GRU)
@case(name="rnn_bidirectional", network=nn.RNN, layers=2, bidirectional=True)
@case(name="lstm_bidirectional", network=nn.LSTM, layers=2, bidirectional=True)
@case(name="gru_bidirectional", network=nn.GRU, layers=2, bidirectional=True)
def recurrent(c, network, layers=1, bidirectional=False):
    c.attribute(inputs=6, hidden=8, layers=layers, bidirectional=bidirectional)
    x, offsets = packed_input(c, 6, lengths=RECURRENT_LENGTHS)
    module = c.module(network(6, 8, layers, bidirectional=bidirectional, batch_first=True))
    sequences = [sequence for sequence in split(x, offsets) if len(sequence)]  # PyTorch refuses those of length 0
    y = torch.cat([module(sequence)[0] for sequence in sequences])
    check_against_pytorchs_packing(module, sequences, y)
    c.output("output", y)
    c.backward(y)


def check_against_pytorchs_packing(module, sequences, packed_output):
    """A `PackedSequence` of all sequences must give what they gave one by one."""
    with torch.no_grad():
        output, _ = module(nn.utils.rnn.pack_sequence(sequences, enforce_sorted=False))
        padded, lengths = nn.utils.rnn.pad_packed_sequence(output, batch_first=True)
        theirs = torch.cat([sequence[:length] for sequence, length in zip(padded, lengths)])
    check_same(theirs, packed_output, "one by one and in PyTorch's packing")


# Pooling, hard and soft attention


@case(name="pooling_mean", pool=lambda sequence: sequence.mean(0))
@case(name="pooling_max", pool=lambda sequence: sequence.max(0).values)
@case(name="pooling_first", pool=lambda sequence: sequence[0])
def pooling(c, pool):
    x, offsets = packed_input(c, 8)
    y = torch.stack([pool(sequence) for sequence in split(x, offsets)])
    c.output("output", y)
    c.backward(y)


@case
def hard_soft(c):
    """softargmax_beta(X·query) for several inverse temperatures, and the argmax it tends to."""
    betas = c.input("betas", [0.1, 1.0, 10.0, 1000.0], gradient=False)
    x, query = c.input("x", c.normal(6, 4)), c.input("query", c.normal(4))
    scores = x @ query
    weights = F.softmax(betas[:, None] * scores, dim=-1)
    y = weights @ x
    hard = scores.argmax()
    c.output("scores", scores)
    c.output("weights", weights)
    c.output("output", y)
    c.output("hard_index", hard.reshape(1))
    c.output("hard_weights", F.one_hot(hard, len(scores)).to(c.dtype))
    c.output("hard_output", x[hard])
    c.backward(y)


# Training


@case
def adamw(c):
    settings = dict(lr=1e-2, betas=(0.9, 0.98), eps=1e-8, weight_decay=0.1)
    c.attribute(lr=1e-2, beta1=0.9, beta2=0.98, eps=1e-8, weight_decay=0.1, steps=10)
    weight = c.param("weight", c.normal(11))
    values = c.normal(10, 11) * 10.0 ** np.linspace(-8.0, 2.0, 11)  # from about eps to large
    values[:, 5] = 0.0  # decay alone
    gradients = c.input("gradients", values, gradient=False)
    optimiser = torch.optim.AdamW([weight], **settings)
    after = []
    for gradient in gradients:
        weight.grad = gradient.clone()
        optimiser.step()
        after.append(weight.detach().clone())
    c.output("param", torch.stack(after))
    c.output("exp_avg", optimiser.state[weight]["exp_avg"])
    c.output("exp_avg_sq", optimiser.state[weight]["exp_avg_sq"])


@case
def clip_grad_norm(c):
    for name, max_norm in (("clipped", 1.0), ("unchanged", 100.0)):
        c.attribute(**{f"max_norm_{name}": max_norm})
        shapes = {"first": (3, 4), "second": (5,)}
        leaves = {}
        for key, shape in shapes.items():
            leaves[key] = torch.zeros(shape, dtype=c.dtype, requires_grad=True)
            leaves[key].grad = c.input(f"{name}.{key}", c.normal(*shape), gradient=False)
        c.output(f"{name}.norm", nn.utils.clip_grad_norm_(leaves.values(), max_norm).reshape(1))
        for key, leaf in leaves.items():
            c.output(f"{name}.{key}", leaf.grad)


def run(name, dtype):
    c = Case(name, dtype)
    CASES[name](c)
    return c


def float32_distance(name, got, want):
    """How far PyTorch's float32 is from its float64, and on which tensor; fails if the rule of README.md fails."""
    worst = 0.0, ""
    for key in filter(lambda key: key.startswith(("out.", "grad.")), want):
        a, b = got[key], want[key]
        if key.startswith("out.final.") and key.endswith("in_proj_bias"):
            # The key bias moves no softmax: its true gradient is 0, and AdamW makes steps of what rounding leaves.
            query_and_value = np.arange(len(b)) // (len(b) // 3) != 1
            a, b = a[query_and_value], b[query_and_value]
        worst = max(worst, (distance(a, b), key))
    assert worst[0] <= TOLERANCE, f"{name}: float32 is {worst[0]:.1e} off on {worst[1]}"
    return worst


def main(names):
    torch.set_num_threads(1)  # sums in one order, so every run gives the same bytes
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent) / "layers"
    folder.mkdir(parents=True, exist_ok=True)
    total = 0
    for name in sorted(names):
        c = run(name, torch.float64)
        data = to_bytes(c.tensors, {"case": name, **c.attributes})
        (folder / f"{name}.safetensors").write_bytes(data)
        total += len(data)
        error, where = float32_distance(name, run(name, torch.float32).tensors, c.tensors)
        print(f"{name:45} {len(data):7} bytes   float32 is off by {error:.1e} {where}")
    print(f"{len(names)} files, {total} bytes")


if __name__ == "__main__":
    main(CASES)
