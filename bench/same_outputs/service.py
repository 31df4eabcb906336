"""Starts `chumoku serve`, sends one request after another, and stores the answers."""

import http.client
import json
import re
import signal
import subprocess
import time
import urllib.parse
from pathlib import Path
from typing import NamedTuple

from .runs import JA, TEXT, Run

# Headers of answers that differ between runs.
VARYING = {"date"}
PATIENCE = 60


class Request(NamedTuple):
    method: str
    path: str
    body: bytes | None
    headers: dict[str, str]
    # The expected status of the answer.
    status: int


def get(path: str, status: int = 200, **headers: str) -> Request:
    return Request("GET", path, None, headers, status)


def post(path: str, body, status: int = 200, **headers: str) -> Request:
    content = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
    return Request("POST", path, content, {"Content-Type": "application/json"} | headers, status)


def pages(others: int = 403):
    for path in ["/", "/info", "/health", "/docs", "/openapi.json"]:
        yield get(path)
    yield get("/nothing", 404)
    yield get("/predict", 405)
    yield get("/", Accept="text/html")
    yield get("/", Accept="text/html", **{"Accept-Language": "ja"})
    yield get("/health", others, Host="evil.example")


def everything():
    """Yields requests to every endpoint, with every known field, for every kind of model; then refused requests."""
    yield from pages()
    for inputs in [TEXT, [TEXT], [TEXT, JA], [[TEXT], [JA]]]:
        for more in [{}, {"raw_scores": True}, {"full": True}, {"full": True, "top": 2, "truncate": True}]:
            yield post("/predict", {"inputs": inputs} | more)
    texts = {"ngrams": TEXT, "tree": "the soup and the match", "labels": "Visit 5: the soup.", "ratings": "Room 5: food good.", "names": "Greta Moore works in Oslo."}
    texts |= {"from-bert": "the film was good", "bert_classifier": "the film was good", "from-names": "Ben works in Oslo.", "lstm": JA, "measures": "Room 7: bath clean."}
    for model, text in texts.items():
        yield post(f"/models/{model}/predict", {"inputs": text})
        yield post("/predict", {"inputs": [[text], [TEXT]], "model": model, "full": True})
        yield post("/explain", {"inputs": text, "model": model})
    for full in [False, True]:
        pair = ["A dog runs on day 3.", "A dog runs."]
        for inputs in [pair, [pair, pair[::-1]]]:
            yield post("/models/pairs/predict", {"inputs": inputs, "full": full})
        yield post("/models/columns/predict", {"inputs": "The meal was bland.", "columns": {"price": 350, "shop": "Ueno"}, "full": full})
    yield post("/models/pairs/explain", {"inputs": pair})
    yield post("/models/columns/explain", {"inputs": "The meal was bland.", "columns": {"price": "5000"}})
    yield post("/models/topics/predict", {"inputs": "the soup and the goal", "full": True, "abstain": 0.6})
    yield post("/explain", {"inputs": TEXT, "method": "integrated-gradients"})
    yield post("/explain", {"inputs": TEXT, "html": True})
    yield post("/explain", {"inputs": "good film", "target": "bad film", "model": "bert"})
    yield post("/explain", {"inputs": "Greta works in Oslo", "model": "names", "span": {"start": 15, "end": 19, "label": "person"}})
    for model, text in {"words": "four two nine", "writer": "the cat saw", "marian": "t5 t9", "qwen3": "t3 t4"}.items():
        yield post("/explain", {"inputs": text, "model": model})
        yield post("/tokenize", {"inputs": [text, text], "model": model})
    yield post("/explain", {"inputs": "four two nine", "target": "42", "model": "words"})
    for more in [{}, {"normalize": False}, {"truncate": True}]:
        yield post("/embed", {"inputs": ["the film was good", "映画"]} | more)
        yield post("/models/xlm_roberta/embed", {"inputs": "the film was good"} | more)
        yield post("/models/static/embed", {"inputs": "the film was good"} | more)
    yield post("/models/xlm_roberta/embed", {"inputs": "film", "prompt_name": "query"})
    yield post("/embed", {"inputs": "good " * 40}, 413)
    yield post("/embed", {"inputs": "good " * 40, "truncate": True})
    for more in [{}, {"encoding_format": "base64"}, {"encoding_format": "float", "dimensions": 16, "user": "x"}]:
        yield post("/v1/embeddings", {"input": ["the film was good", "bad"], "model": "bert"} | more)
    for special in [True, False]:
        yield post("/tokenize", {"inputs": TEXT, "model": "classes", "add_special_tokens": special})
        yield post("/tokenize", {"inputs": "the film", "model": "bert", "add_special_tokens": special})
    for more in [{}, {"beam": 3, "n_best": 2, "alignment": True, "length_penalty": 1}]:
        yield post("/translate", {"inputs": ["four two nine", "one"], "model": "words"} | more)
    yield post("/models/marian/translate", {"inputs": "t5 t9"})
    yield post("/models/words/translate", {"inputs": "four two nine", "stream": True})
    for more in [{}, {"beam": 2}]:
        yield post("/reconstruct", {"inputs": ["four two nine", "one"]} | more)
    yield post("/models/codes/embed", {"inputs": "one", "normalize": True})
    yield post("/models/codes/explain", {"inputs": "one"}, 424)
    written = {"inputs": "the cat", "max_tokens": 12, "seed": 5, "model": "writer"}
    for more in [{}, {"stream": True}, {"temperature": 0}, {"top_k": 3, "top_p": 0.8, "temperature": 1.2}]:
        yield post("/generate", written | more)
    for more in [{}, {"system": "t8"}, {"no_chat": True}]:
        yield post("/models/qwen3/generate", {"inputs": "t4 t5", "max_tokens": 5} | more)
    yield from refusals()
    yield from refusals_by_kind()


def refusals():
    refused = {
        400: [("/predict", {"inputs": ["good", ""]}), ("/predict", b"{"), ("/predict", b'{"inputs": "\xff\xfe"}')],
        404: [("/predict", {"inputs": "good", "model": "nobody"}), ("/models/nobody/predict", {"inputs": "good"})],
        405: [("/info", {"inputs": "good"})],
        422: [
            ("/predict", {}),
            ("/predict", {"inputs": 3}),
            ("/predict", {"inputs": "good", "top": 2}),
            ("/predict", {"inputs": "good", "full": True, "abstain": 2}),
            ("/predict", b'["good"]'),
            ("/explain", {"inputs": ["a", "b"]}),
            ("/explain", {"inputs": "a", "method": "guessing"}),
            ("/explain", {"inputs": "a", "span": {"start": 0, "end": 9}, "model": "names"}),
        ],
    }
    for status, asked in refused.items():
        for path, body in asked:
            yield post(path, body, status)
    yield post("/predict", {"inputs": "good"}, 415, **{"Content-Type": "text/plain"})


def refusals_by_kind():
    """Yields requests that only a model of another kind could answer."""
    yield post("/predict", {"inputs": "good", "model": "bert"}, 424)
    yield post("/embed", {"inputs": "good", "model": "classes"}, 424)
    for path, body in [
        ("/models/columns/predict", {"inputs": "good", "columns": {"price": "many"}}),
        ("/models/ratings/predict", {"inputs": "good", "full": True, "top": 2}),
        ("/explain", {"inputs": "a", "method": "integrated-gradients", "model": "ngrams"}),
        ("/embed", {"inputs": "good", "prompt_name": "query"}),
        ("/v1/embeddings", {"input": "good", "encoding_format": "hex"}),
        ("/v1/embeddings", {"input": "good", "dimensions": 8, "model": "bert"}),
        ("/translate", {"inputs": "a", "n_best": 9}),
        ("/generate", {"inputs": None}),
        ("/generate", {"inputs": "a", "temperature": -1}),
        ("/generate", {"inputs": "a", "system": "be kind", "model": "writer"}),
    ]:
        yield post(path, body, 422)


def limited():
    yield post("/predict", {"inputs": "good"})
    yield post("/predict", {"inputs": "x" * 101}, 413)
    yield post("/predict", {"inputs": ["a", "b", "c", "d"]}, 413)
    yield post("/predict", {"inputs": " " * 6000}, 413)
    yield post("/generate", {"inputs": "the", "max_tokens": 21}, 422)
    yield post("/generate", {"inputs": "the", "max_tokens": 20})
    yield get("/info")


def keyed():
    key = {"Authorization": "Bearer open-sesame"}
    for path in ["/", "/info", "/metrics"]:
        yield get(path, 401)
    for path in ["/", "/info", "/health", "/docs"]:
        yield get(path, **key)
    yield get("/health")
    yield post("/predict", {"inputs": "good"}, 401, Authorization="Bearer wrong")
    yield post("/predict", {"inputs": "good"}, **key)


# The requests, by the name of the run.
REQUESTS = {"serve": everything, "serve-ja": lambda: [*pages(), *refusals()], "serve-limits": limited, "serve-key": keyed, "serve-open": lambda: pages(others=200)}


def perform(program: Path, folder: Path, run: Run, environment: dict[str, str]) -> int:
    """Runs the service until all requests are answered. Returns its exit code, or 1 after an unexpected status.

    Answers are kept as `said/NAME-N.reply`.
    """
    key = {"CHUMOKU_API_KEY": "open-sesame"} if run.name == "serve-key" else {}
    unexpected: list[str] = []
    log = folder / f"said/{run.name}.err"
    with open(log, "wb") as err:
        service = subprocess.Popen([program, *run.args], cwd=folder, env=environment | key, stdin=subprocess.DEVNULL, stdout=err, stderr=err)
    try:
        address = heard(log, r'http://([^\s"（)]+)', service)
        if address is not None:
            port = urllib.parse.urlsplit(f"http://{address}").port
            for number, request in enumerate(REQUESTS[run.name](), 1):
                status, reply = answered(port, request)
                (folder / f"said/{run.name}-{number:03}.reply").write_bytes(reply)
                if status != request.status:
                    unexpected.append(f"{request.method} {request.path}: {status}, not {request.status}: {request.body}")
            _, metrics = answered(port, get("/metrics", Authorization="Bearer open-sesame"))
            (folder / f"said/{run.name}-metrics.reply").write_bytes(names_of_metrics(metrics))
            if run.name == "serve":
                # No folder has changed.
                service.send_signal(signal.SIGHUP)
                heard(log, "static: unchanged", service)
            service.send_signal(signal.SIGTERM)
        code = service.wait(PATIENCE)
        (folder / f"said/{run.name}.out").write_text("\n".join(unexpected))
        return 1 if unexpected else code
    finally:
        service.kill()
        service.wait()


def heard(log: Path, pattern: str, service: subprocess.Popen) -> str | None:
    """Waits for a pattern in the log and returns its group, or None if the service has ended."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if found := re.search(f"(?:{pattern})", log.read_text(encoding="utf-8", errors="replace")):
            return found[found.lastindex or 0]
        if service.poll() is not None:
            return None
        time.sleep(0.01)
    raise TimeoutError(f"{log}: nobody says {pattern}")


def answered(port: int, request: Request) -> tuple[int, bytes]:
    """Returns the status, and a record of request, status, headers and body. The host name is fixed for any port."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request(request.method, request.path, request.body, {"Host": "localhost:3000"} | request.headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    kept = sorted(f"{name.lower()}: {value}\n" for name, value in answer.getheaders() if name.lower() not in VARYING)
    asked = f"{request.method} {request.path} {request.headers}\n".encode() + (request.body or b"")
    return answer.status, asked + f"\n\n{answer.status} {answer.reason}\n{''.join(kept)}\n".encode() + content


def names_of_metrics(answer: bytes) -> bytes:
    head, _, rest = answer.decode().partition("\n\n")[2].partition("\n\n")
    head = re.sub(r"content-length: [0-9]+", "content-length: N", head)
    lines = [line if line.startswith("#") else line.rpartition(" ")[0] for line in rest.splitlines()]
    return "\n".join([head, "", *lines, ""]).encode()
