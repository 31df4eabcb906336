"""Generates load for a text service: a number of connections, each sending one text after another.

    python serve_load.py http://127.0.0.1:3000/embed TEXTS [--connections 1,16,256] [--seconds 10] [--expect ANSWERS] [--explaining N]

TEXTS is a file with one text per line. Only loopback addresses are accepted. Prints one JSON object. For each number of
connections it has requests per second, the median and the 99th percentile in milliseconds, answers by status, and the
number of differing answers. With --expect each answer must equal the line of ANSWERS for its text, as JSON. Without it
each must equal the first answer to its text. The client needs no package, and runs one process for every 64
connections, on the same machine as the service.

With --explaining each number of connections is measured twice: alone, and while N more connections repeatedly send one
text of 763 bytes to `/explain`. `explanations` counts their answers by status. """

import argparse
import ipaddress
import json
import multiprocessing
import selectors
import socket
import statistics
import threading
import time
from urllib.parse import urlparse


class Connection:
    """One connection with one pending request."""

    def __init__(self, address, number):
        self.socket = socket.create_connection(address, timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.number, self.turn = number, 0
        self.received, self.begun, self.text = b"", 0.0, 0

    def ask(self, requests):
        self.text = (self.number * 7919 + self.turn) % len(requests)
        self.turn += 1
        self.received, self.begun = b"", time.perf_counter()
        self.socket.sendall(requests[self.text])

    def answer(self):
        """Returns status and body once they are complete."""
        piece = self.socket.recv(1 << 16)
        if not piece:
            raise ConnectionError("the service closed a connection")
        self.received += piece
        head, end, body = self.received.partition(b"\r\n\r\n")
        if not end:
            return None
        lines = head.split(b"\r\n")
        length = next(int(line[15:]) for line in lines if line.lower().startswith(b"content-length:"))
        return (int(lines[0].split()[1]), body) if len(body) >= length else None


def client(address, requests, expected, numbers, seconds, queue):
    connections = [Connection(address, number) for number in numbers]
    selector = selectors.DefaultSelector()
    for connection in connections:
        selector.register(connection.socket, selectors.EVENT_READ, connection)
        connection.ask(requests)
    times, statuses, differed, known = [], {}, 0, dict(expected)
    until, open_connections = time.perf_counter() + seconds, len(connections)
    while open_connections:
        for key, _ in selector.select():
            connection = key.data
            answer = connection.answer()
            if answer is None:
                continue
            now = time.perf_counter()
            status, body = answer
            times.append(now - connection.begun)
            statuses[status] = statuses.get(status, 0) + 1
            if status == 200:
                found = json.loads(body) if expected else body
                differed += known.setdefault(connection.text, found) != found
            if now < until:
                connection.ask(requests)
            else:
                selector.unregister(connection.socket)
                connection.socket.close()
                open_connections -= 1
    queue.put((times, statuses, differed))


def explain(address, request, is_over, statuses):
    """Requests explanations repeatedly, and abandons a pending one at the end."""
    connection = Connection(address, 0)
    connection.socket.settimeout(0.2)
    while not is_over.is_set():
        connection.ask([request])
        answer = None
        while answer is None and not is_over.is_set():
            try:
                answer = connection.answer()
            except TimeoutError:
                pass
        status = "left" if answer is None else str(answer[0])
        statuses[status] = statuses.get(status, 0) + 1
    connection.socket.close()


def measure(arguments, address, requests, expected, connections, explaining=()):
    is_over, explanations = threading.Event(), {}
    of_each = (address, *explaining[:1], is_over, explanations)
    explainers = [threading.Thread(target=explain, args=of_each) for _ in explaining]
    for explainer in explainers:
        explainer.start()
    if explainers:
        # Waits until the first one is being computed.
        time.sleep(1)
    queue = multiprocessing.Queue()
    shares = [range(start, min(start + 64, connections)) for start in range(0, connections, 64)]
    begun = time.perf_counter()
    processes = [
        multiprocessing.Process(target=client, args=(address, requests, expected, share, arguments.seconds, queue))
        for share in shares
    ]
    for process in processes:
        process.start()
    found = [queue.get(timeout=arguments.seconds + 120) for _ in processes]
    took = time.perf_counter() - begun
    for process in processes:
        process.join()
    is_over.set()
    for explainer in explainers:
        explainer.join()
    times = sorted(time for each, _, _ in found for time in each)
    statuses = {}
    for _, each, _ in found:
        for status, count in each.items():
            statuses[str(status)] = statuses.get(str(status), 0) + count
    return {
        "connections": connections,
        "explaining": len(explaining),
        "explanations": explanations,
        "requests_a_second": len(times) / took,
        "median_ms": 1e3 * statistics.median(times),
        "p99_ms": 1e3 * times[int(0.99 * (len(times) - 1))],
        "statuses": statuses,
        "differed": sum(differed for _, _, differed in found),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("texts")
    parser.add_argument("--connections", default="1,16,256")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--expect")
    parser.add_argument("--explaining", type=int, default=0)
    arguments = parser.parse_args()
    url = urlparse(arguments.url)
    host = "127.0.0.1" if url.hostname == "localhost" else url.hostname
    if not ipaddress.ip_address(host).is_loopback:
        parser.error(f"{url.hostname}: only this machine is asked")
    with open(arguments.texts, encoding="utf-8") as file:
        texts = [line.rstrip("\n") for line in file if line.strip()]
    expected = {}
    if arguments.expect:
        with open(arguments.expect, encoding="utf-8") as file:
            expected = dict(enumerate(json.loads(line) for line in file))

    def request(path, text):
        body = json.dumps({"inputs": text}).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        return head.encode() + body

    requests = [request(url.path, text) for text in texts]
    long = " ".join(texts * 20).encode()[:763].decode(errors="ignore")
    explaining = [request("/explain", long)] * arguments.explaining
    address = (host, url.port or 80)
    counts = [int(count) for count in arguments.connections.split(",")]
    rows = []
    for count in counts:
        rows.append(measure(arguments, address, requests, expected, count))
        if explaining:
            rows.append(measure(arguments, address, requests, expected, count, explaining))
    print(json.dumps({"url": arguments.url, "texts": len(texts), "rows": rows}))


if __name__ == "__main__":
    main()
