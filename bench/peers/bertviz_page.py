"""The peer of `chumoku explain --html`: BertViz's head_view and model_view of the same attention, as files.

    python bertviz_page.py attention.safetensors --out pages                     pages that load scripts from a CDN
    python bertviz_page.py attention.npz --out pages --scripts scripts           pages that load them from disk
    python bertviz_page.py attention.npz --out pages --tokens tokens.txt --views head

The file holds an array `attention` (layers, heads, n, n) in f32. The n tokens are its metadata `tokens`, a JSON list,
in a .safetensors file, an array `tokens` of texts in an .npz file, or the lines of a file (`--tokens`).

BertViz's pages load require.js, d3 and jQuery from cdnjs.cloudflare.com. `--scripts` names a folder with `require.js`,
`d3.min.js` and `jquery.min.js`. They are copied next to the pages, which then load them. Nothing else in a page is
changed. Prints one JSON object per page, with versions.
"""

import argparse
import importlib.metadata
import json
import pathlib
import shutil
import sys
import time

CDN = "https://cdnjs.cloudflare.com/ajax/libs/"
# The scripts that BertViz loads, and the copies next to the page. require.js appends `.js` to the last two.
COPIES = {
    CDN + "require.js/2.3.6/require.min.js": "require.js",
    CDN + "d3/5.7.0/d3.min": "d3.min",
    CDN + "jquery/2.0.0/jquery.min": "jquery.min",
}


def stop(message):
    sys.exit(f"error: {message}")


def read(path, tokens_path):
    """Reads the attention and its tokens."""
    import numpy

    tokens = None
    try:
        if path.suffix == ".safetensors":
            import safetensors

            with safetensors.safe_open(path, framework="numpy") as file:
                attention = file.get_tensor("attention")
                tokens = (file.metadata() or {}).get("tokens")
            tokens = None if tokens is None else json.loads(tokens)
        elif path.suffix == ".npz":
            with numpy.load(path) as file:
                attention = file["attention"]
                tokens = file["tokens"].tolist() if "tokens" in file else None
        else:
            stop(f"{path}: expected a name that ends in .safetensors or .npz")
    except (OSError, KeyError, ValueError) as error:
        stop(f"{path}: {error}; expected an array `attention`")
    except Exception as error:  # safetensors has an error class of its own
        stop(f"{path}: {error}")
    if tokens_path is not None:
        tokens = tokens_path.read_text(encoding="utf-8").split("\n")
        tokens = tokens[:-1] if tokens[-1] == "" else tokens
    if tokens is None:
        stop(f"{path} holds no tokens; give them with --tokens FILE, one a line")
    if attention.ndim != 4 or attention.shape[2:] != (len(tokens), len(tokens)):
        stop(f"{path}: expected (layers, heads, {len(tokens)}, {len(tokens)}) for as many tokens, got {attention.shape}")
    return attention.astype(numpy.float32, copy=False), tokens


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("attention", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, required=True, metavar="FOLDER")
    parser.add_argument("--scripts", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--tokens", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--views", default="head,model")
    arguments = parser.parse_args()
    try:
        import bertviz
        import torch
    except ImportError as error:
        stop(f"{error}; pip install bertviz==1.4.1 ipython torch (bench/peers/README.md)")

    views = {"head": bertviz.head_view, "model": bertviz.model_view}
    chosen = arguments.views.split(",")
    if unknown := [view for view in chosen if view not in views]:
        stop(f"--views: expected {' or '.join(views)}, got {unknown[0]}")
    attention, tokens = read(arguments.attention, arguments.tokens)
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.scripts:
        for copy in COPIES.values():
            name = copy if copy.endswith(".js") else copy + ".js"
            if not (arguments.scripts / name).is_file():
                stop(f"{arguments.scripts} has no {name}; bench/peers/README.md says where to get it")
            shutil.copyfile(arguments.scripts / name, arguments.out / name)

    # As a model returns them: one tensor per layer, each with a batch of one.
    layers = tuple(torch.from_numpy(layer)[None] for layer in attention)
    versions = {name: importlib.metadata.version(name) for name in ["bertviz", "torch", "ipython"]}
    for view in chosen:
        start = time.perf_counter()
        html = views[view](attention=layers, tokens=list(tokens), html_action="return").data
        if arguments.scripts:
            for url, copy in COPIES.items():
                if html.count(url) != 1:
                    stop(f"BertViz {versions['bertviz']} does not load {url} once, as 1.4.1 does; run without --scripts")
                html = html.replace(url, copy)
        page = arguments.out / f"bertviz-{view}.html"
        with open(page, "w", encoding="utf-8") as file:
            file.write(html)
        report = {"view": view, "page": str(page), "bytes": page.stat().st_size}
        report |= {"seconds": round(time.perf_counter() - start, 3), "tokens": len(tokens), **versions}
        print(json.dumps(report), flush=True)
        del html


if __name__ == "__main__":
    main()
