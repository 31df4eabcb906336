"""Makes the golden files of activation patching and the logit lens. See ../README.md.

    python golden/make/patching.py [FOLDER]    writes FOLDER/layers/activation_patching_*.safetensors

The encoder is written out in single steps, so that each site can be replaced. Without a patch, the steps must give what
PyTorch's own module gives.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from layers import case, check_same, encoder_module, main, sinusoidal_table


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
        return self.head((self.encoder.norm(x) if self.encoder.norm else x).mean(0))

    def run(self, ids, patch=lambda site, x: x):
        """The logits of one sequence. `patch(site, x)` returns the values to use at a site; a site is its kind and layer."""
        x = patch(("residual", 0), self.embed(ids))
        for index, layer in enumerate(self.encoder.layers):
            def attend(x):
                attention = layer.self_attn
                q, k, v = F.linear(x, attention.in_proj_weight, attention.in_proj_bias).chunk(3, -1)
                q, k, v = (t.reshape(len(x), 2, 4).transpose(0, 1) for t in (q, k, v))
                weights = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(4), -1)
                heads = (weights @ v).transpose(0, 1).reshape(len(x), 8)
                return attention.out_proj(patch(("heads", index), heads))

            def feed(x):
                return patch(("feed_forward", index), layer.linear2(layer.activation(layer.linear1(x))))

            if layer.norm_first:
                x = x + attend(layer.norm1(x))
                x = x + feed(layer.norm2(x))
            else:
                x = layer.norm1(x + attend(x))
                x = layer.norm2(x + feed(x))
            x = patch(("residual", index + 1), x)
        return self.read_out(x)


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

        def at_position(kind, layer, to, source):
            def patch(site, x):
                if site != (kind, layer):
                    return x
                x = x.clone()
                x[to] = seen[site][source]
                return x

            return model.run(text, patch)

        def at_head(layer, head):
            def patch(site, x):
                if site != ("heads", layer):
                    return x
                x = x.clone()
                for to, source in pairs:
                    x[to, 4 * head : 4 * head + 4] = seen[site][source, 4 * head : 4 * head + 4]
                return x

            return model.run(text, patch)

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


if __name__ == "__main__":
    main(["activation_patching_pre", "activation_patching_post"])
