"""Mixed load for `chumoku serve`: several models and endpoints, with faulty requests among them, for some minutes.

    python serve_mixed.py PROGRAM MODEL… [--texts FILE] [--minutes 5] [--connections 8] [--threads 2]

PROGRAM is `chumoku`; MODEL is a folder of any kind. The script starts the service on a free port of this machine, sends
requests over `--connections` connections, and ends it with SIGTERM. The expected answer to a valid request is the
output of the command (`predict`, `embed`, `translate`, `generate`, `explain`), which runs before the service starts.
Each invalid request must be refused with its status. Some clients disconnect half-way. Every 20 seconds a model is
touched, and SIGHUP reloads it. The script sends at most two million requests, takes at most an hour, and uses only
loopback.

Prints one JSON object: requests by endpoint and status, the number refused for load (429), the number of wrong answers
(with the first five), and the service's resident memory at the start, after a tenth of the time, and at the end. The
exit code is 1 if anything was wrong. """

import argparse
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time

MOST_REQUESTS, MOST_MINUTES, RELOAD_SECONDS = 2_000_000, 60, 20
TEXTS = [
    "Slow, cold and not worth the money.",
    "The best evening we have had in years!",
    "It was fine, I suppose.",
    "Anna waits in Oslo",
    "number 7",
    "映画はとても面白かったです。",
    "Never again: rude waiters, stale bread, and a bill that was wrong twice.",
    "good",
]


def printed(program, *arguments):
    """Returns the lines that a command prints, as bytes."""
    found = subprocess.run([program, *arguments], capture_output=True, check=True, stdin=subprocess.DEVNULL)
    return [line for line in found.stdout.split(b"\n") if line]


class Case:
    """A request and its expected status, and for a valid request the expected answer."""

    def __init__(self, path, body, status=200, expected=None, method="POST", headers=None, is_stream=False):
        self.path, self.status, self.expected, self.method = path, status, expected, method
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.headers = {"Content-Type": "application/json", **(headers or {})}
        self.is_stream = is_stream

    def is_right(self, status, body):
        if status != self.status:
            return False
        if status != 200:
            return "error_type" in json.loads(body)
        if self.is_stream:
            events = [line[6:] for line in body.decode().split("\n\n") if line.startswith("data: ")]
            text = "".join(json.loads(event)["text"] for event in events[:-1])
            return events[-1] == "[DONE]" and text == self.expected
        return self.expected is None or json.loads(body) == self.expected


def sound_cases(program, name, folder, kind, texts):
    at = f"/models/{name}"
    if kind in ("classifier", "ngrams", "tagger"):
        lines = [json.loads(line) for line in printed(program, "predict", folder, "--json", *texts)]
        for text, line in zip(texts, lines, strict=True):
            yield Case(f"{at}/predict", {"inputs": text, "full": True}, expected=line)
        yield Case(f"{at}/predict", {"inputs": [[text] for text in texts], "full": True}, expected=lines)
    if kind == "encoder":
        lines = [json.loads(line)["embedding"] for line in printed(program, "embed", folder, *texts)]
        for text, line in zip(texts, lines, strict=True):
            yield Case(f"{at}/embed", {"inputs": text}, expected=[line])
        yield Case(f"{at}/embed", {"inputs": texts}, expected=lines)
        yield Case("/v1/embeddings", {"input": texts[:2], "encoding_format": "base64", "model": name})
    if kind == "translator":
        lines = [json.loads(line) for line in printed(program, "translate", folder, "--json", *texts)]
        yield Case(f"{at}/translate", {"inputs": texts}, expected=lines)
        yield Case(f"{at}/translate", {"inputs": texts[0]}, expected=lines[:1])
    if kind == "language_model":
        for seed in range(4):
            arguments = ["generate", folder, "the", "--max-tokens", "12", "--seed", str(seed), "--json"]
            line = json.loads(printed(program, *arguments)[0])
            body = {"inputs": "the", "max_tokens": 12, "seed": seed}
            yield Case(f"{at}/generate", body, expected=line)
            yield Case(f"{at}/generate", {**body, "stream": True}, expected=line["text"], is_stream=True)
    if kind != "tagger":
        for text in texts[:2]:
            line = json.loads(b"\n".join(printed(program, "explain", folder, text, "--json", "-")))
            # The command names the model after its folder.
            yield Case(f"{at}/explain", {"inputs": text}, expected=line)
    if kind != "ngrams" and kind != "tagger":
        yield Case(f"{at}/tokenize", {"inputs": texts})


def faulty_cases(name):
    at = f"/models/{name}"
    yield Case("/nothing", b"", 404, method="GET")
    yield Case("/predict", b"", 405, method="GET")
    yield Case("/models/nobody/predict", {"inputs": "good"}, 404)
    yield Case(f"{at}/explain", b'{"inputs": ', 400)
    yield Case(f"{at}/explain", b'{"inputs": "\xff"}', 400)
    yield Case(f"{at}/explain", b"[" * 50_000, 400)
    yield Case(f"{at}/explain", {"inputs": ""}, 400)
    yield Case(f"{at}/explain", {"inputs": 3}, 422)
    yield Case(f"{at}/explain", {"inputs": "x" * 200_000}, 413)
    yield Case(f"{at}/explain", {"inputs": "good"}, 415, headers={"Content-Type": "text/plain"})
    yield Case(f"{at}/explain", {"inputs": "good"}, 403, headers={"Host": "evil.example"})
    yield Case(f"{at}/explain", {"inputs": "good", "junk": "x" * 3_000_000}, 413)


class Tally:
    def __init__(self):
        self.lock = threading.Lock()
        self.answers, self.wrong, self.overloaded, self.examples, self.left, self.sent = {}, 0, 0, [], 0, 0

    def add(self, case, status, body, is_right):
        with self.lock:
            self.sent += 1
            key = f"{case.path.split('/')[-1]} {status}"
            self.answers[key] = self.answers.get(key, 0) + 1
            if status == 429:
                self.overloaded += 1
            elif not is_right:
                self.wrong += 1
                if len(self.examples) < 5:
                    self.examples.append([case.path, case.body[:200].decode(errors="replace"), status, str(body[:200])])

    def leave(self):
        with self.lock:
            self.left += 1


def leave_half_way(address, case, rng):
    """Sends a part of a request, or all of it, and disconnects without waiting for the answer."""
    lines = [f"{case.method} {case.path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(case.body)}"]
    whole = "\r\n".join([*lines, "Content-Type: application/json", "", ""]).encode() + case.body
    with socket.create_connection(address, timeout=30) as connection:
        connection.sendall(whole[: rng.randrange(1, len(whole) + 1)])
        time.sleep(rng.random() / 50)


def client(address, cases, seed, until, tally):
    rng = random.Random(seed)
    connection = http.client.HTTPConnection(*address, timeout=60)
    while time.monotonic() < until and tally.sent < MOST_REQUESTS:
        sound, faulty = cases
        chance = rng.random()
        case = rng.choice(faulty if chance < 0.15 else sound)
        if chance > 0.98:
            leave_half_way(address, case, rng)
            tally.leave()
            continue
        status, body = 0, b""
        try:
            connection.request(case.method, case.path, case.body, case.headers)
        except (BrokenPipeError, ConnectionResetError):
            # A body that is too large is refused before all of it is sent.
            pass
        try:
            response = connection.getresponse()
            status, body = response.status, response.read()
            is_right = case.is_right(status, body)
        except (http.client.HTTPException, OSError, ValueError) as error:
            is_right, body = case.status == 413 and isinstance(error, (OSError, http.client.HTTPException)), repr(error)
        tally.add(case, status, body, is_right)
        if status in (0, 413):
            connection.close()
    connection.close()


def resident(process):
    with open(f"/proc/{process}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:")) // 1024


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--texts")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    if not 0 < arguments.minutes <= MOST_MINUTES or not 1 <= arguments.connections <= 256:
        parser.error(f"--minutes: at most {MOST_MINUTES}; --connections: at most 256")
    texts = TEXTS
    if arguments.texts:
        with open(arguments.texts, encoding="utf-8") as file:
            texts = [line.strip() for line in file if line.strip()][:64]
    program, folders = arguments.program, [folder.rstrip("/") for folder in arguments.models]
    names = [os.path.basename(folder) for folder in folders]
    command = [program, "serve", *folders, "--port", "0", "--threads", str(arguments.threads), "--log", "json"]
    with open("serve_mixed.log", "w+", encoding="utf-8") as log:
        service = subprocess.Popen(command, stderr=log, stdin=subprocess.DEVNULL)
        try:
            found = run(arguments, service, names, folders, texts)
        finally:
            if service.poll() is None:
                service.kill()
    print(json.dumps(found))
    sys.exit(0 if found["wrong"] == 0 and found["exit_code"] == 0 else 1)


def listening(service):
    """Returns the address of the service, and its models with their kinds."""
    for _ in range(600):
        with open("serve_mixed.log", encoding="utf-8") as log:
            line = log.readline()
        if line.endswith("\n"):
            event = json.loads(line)
            return event["url"].removeprefix("http://").split(":"), event["models"]
        if service.poll() is not None:
            break
        time.sleep(0.1)
    raise SystemExit("the service did not start: see serve_mixed.log")


def run(arguments, service, names, folders, texts):
    (host, port), models = listening(service)
    address = (host, int(port))
    sound, faulty = [], []
    for name, folder, model in zip(names, folders, models, strict=True):
        sound += sound_cases(arguments.program, name, folder, model["kind"], texts)
        if model["kind"] != "tagger":
            faulty += faulty_cases(name)
    tally, seconds = Tally(), 60 * arguments.minutes
    begun = time.monotonic()
    memory = {"start": resident(service.pid)}
    until = begun + seconds
    clients = [
        threading.Thread(target=client, args=(address, (sound, faulty), seed, until, tally))
        for seed in range(arguments.connections)
    ]
    for each in clients:
        each.start()
    reloads, turn = 0, 0
    while time.monotonic() < until:
        time.sleep(min(1, max(0, until - time.monotonic())))
        passed = time.monotonic() - begun
        if passed >= seconds / 10 and "after_a_tenth" not in memory:
            memory["after_a_tenth"] = resident(service.pid)
        if passed // RELOAD_SECONDS > turn:
            turn = passed // RELOAD_SECONDS
            folder = folders[reloads % len(folders)]
            os.utime(os.path.join(folder, sorted(os.listdir(folder))[0]))
            service.send_signal(signal.SIGHUP)
            reloads += 1
    for each in clients:
        each.join()
    memory["end"] = resident(service.pid)
    took = time.monotonic() - begun
    service.send_signal(signal.SIGTERM)
    return {
        "seconds": round(took, 1),
        "cases": len(sound) + len(faulty),
        "requests": tally.sent,
        "requests_a_second": round(tally.sent / took, 1),
        "left_half_way": tally.left,
        "refused_for_load": tally.overloaded,
        "wrong": tally.wrong,
        "examples": tally.examples,
        "reloads": reloads,
        "resident_mib": memory,
        "exit_code": service.wait(timeout=60),
        "answers": dict(sorted(tally.answers.items())),
    }


if __name__ == "__main__":
    main()
