"""Makes the golden files of activation patching and the logit lens. See ../README.md.

    python golden/make/patching.py [FOLDER]    writes FOLDER/layers/activation_patching_*.safetensors

Encoder and decoder are written out in single steps, so that each site can be replaced. Without a patch, the steps must
give what PyTorch's own modules give.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from layers import case, check_same, encoder_module, main, sinusoidal_table


def heads_of(attention, x, memory, is_causal=False):
    """The outputs of both heads side by side, before the output projection. Queries come from x, the rest from memory."""
    weights, biases = attention.in_proj_weight.chunk(3), attention.in_proj_bias.chunk(3)
    q, k, v = (
        F.linear(rows, w, b).reshape(len(rows), 2, 4).transpose(0, 1)
        for rows, w, b in zip((x, memory, memory), weights, biases)
    )
    scores = q @ k.transpose(1, 2) / math.sqrt(4)
    if is_causal:
        scores = scores + torch.full_like(scores, -math.inf).triu(1)
    return (torch.softmax(scores, -1) @ v).transpose(0, 1).reshape(len(x), 8)


def run_layers(layers, x, patch, side="", memory=None):
    """The residual stream after layers that are written out in steps. Layers with a memory are those of a decoder."""
    x = patch((side + "residual", 0), x)
    for index, layer in enumerate(layers):

        def attend(x):
            heads = heads_of(layer.self_attn, x, x, is_causal=memory is not None)
            return layer.self_attn.out_proj(patch((side + "heads", index), heads))

        def cross(x):
            heads = heads_of(layer.multihead_attn, x, memory)
            return layer.multihead_attn.out_proj(patch((side + "cross_heads", index), heads))

        def feed(x):
            return patch((side + "feed_forward", index), layer.linear2(layer.activation(layer.linear1(x))))

        parts = [attend, feed] if memory is None else [attend, cross, feed]
        for part, norm in zip(parts, (getattr(layer, f"norm{i + 1}") for i in range(3))):
            x = x + part(norm(x)) if layer.norm_first else norm(x + part(x))
        x = patch((side + "residual", index + 1), x)
    return x


def normalized(stack, x):
    return stack.norm(x) if stack.norm else x


class Classifier(nn.Module):
    """Token embedding × √d + sinusoidal positions → 2 layers → mean → linear."""

    def __init__(self, norm_first):
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        activation = "gelu" if norm_first else "relu"
        self.encoder = encoder_module(8, 16, activation, norm_first=norm_first, final_norm=norm_first)
        self.head = nn.Linear(8, 3)

    def embed(self, ids):
        scaled = self.embedding(ids) * math.sqrt(8)
        return scaled + sinusoidal_table(len(ids), 8, scaled.dtype)

    def read_out(self, x):
        return self.head(normalized(self.encoder, x).mean(0))

    def run(self, ids, patch=lambda site, x: x):
        """The logits of one sequence. `patch(site, x)` returns the values to use at a site; a site is its kind and layer."""
        return self.read_out(run_layers(self.encoder.layers, self.embed(ids), patch))


@case(name="activation_patching_pre", norm_first=True)
@case(name="activation_patching_post", norm_first=False)
def activation_patching(c, norm_first):
    model = c.module(Classifier(norm_first))
    c.attribute(norm_first=norm_first)
    text = c.integer_input("text", [3, 7, 1, 4, 9])
    other = c.integer_input("other", [3, 7, 12, 15, 4, 9])
    # The second text has one token more; its third token has no counterpart.
    pairs = [(0, 0), (1, 1), (2, 3), (3, 4), (4, 5)]
    c.integer_input("pairs", [position for pair in pairs for position in pair])
    with torch.no_grad():
        seen = {}
        logits = torch.stack([model.run(text), model.run(other, lambda site, x: seen.setdefault(site, x))])
        for ids, row in zip([text, other], logits):
            check_same(row, whole(model, ids), "the steps and the module")
        c.output("unpatched", logits)

        at_position, at_head = patches(seen, pairs, lambda patch: model.run(text, patch))
        for depth in range(3):
            c.output(f"residual{depth}", torch.stack([at_position("residual", depth, *pair) for pair in pairs]))
        for layer in range(2):
            of_pairs = [at_position("feed_forward", layer, *pair) for pair in pairs]
            c.output(f"feed_forward{layer}", torch.stack(of_pairs))
            c.output(f"heads{layer}", torch.stack([at_head(layer, head) for head in range(2)]))
        states = {}
        model.run(text, lambda site, x: states.setdefault(site, x))
        c.output("lens", torch.stack([model.read_out(states["residual", depth]) for depth in range(3)]))


def whole(model, ids):
    """The logits by PyTorch's own encoder."""
    return model.head(model.encoder(model.embed(ids)[None])[0].mean(0))


def patches(seen, pairs, run):
    """Two functions that run a model with one position of one site, or one head at all positions, from another run."""

    def at_position(kind, layer, to, source):
        def patch(site, x):
            if site != (kind, layer):
                return x
            x = x.clone()
            x[to] = seen[site][source]
            return x

        return run(patch)

    def at_head(layer, head, kind="heads"):
        def patch(site, x):
            if site != (kind, layer):
                return x
            x = x.clone()
            for to, source in pairs:
                x[to, 4 * head : 4 * head + 4] = seen[site][source, 4 * head : 4 * head + 4]
            return x

        return run(patch)

    return at_position, at_head


class Translator(nn.Module):
    """An encoder of 2 layers, a bottleneck if it has a width, and a decoder of 2 layers, all with d_model 8."""

    def __init__(self, norm_first, bottleneck):
        super().__init__()
        self.source_embedding, self.embedding = nn.Embedding(20, 8), nn.Embedding(15, 8)
        activation = "gelu" if norm_first else "relu"
        self.encoder = encoder_module(8, 16, activation, norm_first=norm_first, final_norm=norm_first)
        layer = nn.TransformerDecoderLayer(8, 2, 16, 0.0, activation, norm_first=norm_first, batch_first=True)
        self.decoder = nn.TransformerDecoder(layer, 2, norm=nn.LayerNorm(8) if norm_first else None)
        maps = {"down": nn.Linear(8, bottleneck), "up": nn.Linear(bottleneck, 8)} if bottleneck else None
        self.bottleneck = nn.ModuleDict(maps) if maps else None

    def embed(self, embedding, ids):
        return embedding(ids) * math.sqrt(8) + sinusoidal_table(len(ids), 8, embedding.weight.dtype)

    def memory(self, encoded):
        return self.bottleneck["up"](self.bottleneck["down"](encoded.mean(0, True))) if self.bottleneck else encoded

    def logits(self, x):
        return normalized(self.decoder, x) @ self.embedding.weight.T

    def run(self, source, prefix, patch=lambda site, x: x):
        """The logits of the token after the prefix."""
        x = run_layers(self.encoder.layers, self.embed(self.source_embedding, source), patch)
        memory = self.memory(normalized(self.encoder, x))
        y = run_layers(self.decoder.layers, self.embed(self.embedding, prefix), patch, "decoder.", memory)
        return self.logits(y)[-1]

    def whole(self, source, prefix):
        """The same by PyTorch's own encoder and decoder."""
        memory = self.memory(self.encoder(self.embed(self.source_embedding, source)[None])[0])
        future = torch.ones(len(prefix), len(prefix)).triu(1).bool()
        y = self.decoder(self.embed(self.embedding, prefix)[None], memory[None], tgt_mask=future)[0]
        return y[-1] @ self.embedding.weight.T


@case(name="translator_patching_pre", norm_first=True, bottleneck=0)
@case(name="translator_patching_post", norm_first=False, bottleneck=0)
@case(name="translator_patching_bottleneck", norm_first=True, bottleneck=3)
def translator_patching(c, norm_first, bottleneck):
    model = c.module(Translator(norm_first, bottleneck))
    c.attribute(norm_first=norm_first, bottleneck=bottleneck)
    text = c.integer_input("text", [3, 7, 1, 4, 9])
    other = c.integer_input("other", [3, 7, 12, 15, 4, 9])
    pairs = [(0, 0), (1, 1), (2, 3), (3, 4), (4, 5)]
    c.integer_input("pairs", [position for pair in pairs for position in pair])
    prefix = c.integer_input("prefix", [0, 8, 11, 5])
    same = [(i, i) for i in range(len(prefix))]
    with torch.no_grad():
        seen, own = {}, {}
        text_logits = model.run(text, prefix, lambda site, x: own.setdefault(site, x))
        logits = torch.stack([text_logits, model.run(other, prefix, lambda site, x: seen.setdefault(site, x))])
        for source, row in zip([text, other], logits):
            check_same(row, model.whole(source, prefix), "the steps and the modules")
        c.output("unpatched", logits)
        for side, positions in (("", pairs), ("decoder.", same)):
            at_position, at_head = patches(seen, positions, lambda patch: model.run(text, prefix, patch))
            for depth in range(3):
                rows = [at_position(side + "residual", depth, *pair) for pair in positions]
                c.output(f"{side}residual{depth}", torch.stack(rows))
            for layer in range(2):
                rows = [at_position(side + "feed_forward", layer, *pair) for pair in positions]
                c.output(f"{side}feed_forward{layer}", torch.stack(rows))
                for kind in ["heads", "cross_heads"] if side else ["heads"]:
                    rows = [at_head(layer, head, side + kind) for head in range(2)]
                    c.output(f"{side}{kind}{layer}", torch.stack(rows))
        c.output("decoder.lens", torch.cat([model.logits(own["decoder.residual", depth]) for depth in range(3)]))


if __name__ == "__main__":
    names = [f"activation_patching_{norm}" for norm in ("pre", "post")]
    main(names + [f"translator_patching_{case}" for case in ("pre", "post", "bottleneck")])
