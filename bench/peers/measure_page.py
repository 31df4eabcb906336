"""Opens HTML files from disk in headless Chromium, and measures time and memory.

    python measure_page.py page.html
    python measure_page.py a.html b.html --runs 5 --timeout 120 --screenshots folder

Prints one JSON object per page: bytes of the file, elements in the document, milliseconds until drawn (median, minimum
and maximum of the runs) and memory. Pages alternate, and each run is a separate browser with an empty profile. The
files are read once before, so that none is read from a cold disk.

A page counts as drawn once the document is complete, contains an element of `--expect`, and has not changed for `--quiet`
seconds while the page responded. The time is counted in milliseconds since the navigation began
(`performance.timeOrigin`). It is the later of
 - the last frame of the window whose picture differs from the one before, as the compositor delivers it
   (`Page.startScreencast`; a frame arrives only after script, style, layout, paint and raster), and
 - the last frame at whose beginning the number of elements, or an attribute of <html>, differed from the frame before (a
   page may report there that content below the window is drawn too).
Invisible work, for example below the window, counts only if `--expect` names its end. `own_ms` is the attribute
`data-drawn` of <html>, a page's own measurement, if it has one.

A page that is not drawn within `--timeout` seconds is `timeout`, and one whose process ends is `crashed`. A page is
`empty` if nothing changes for 20 seconds and no element of `--expect` is there. Such a page is not tried again.
`problem` describes the fault.

`heap_bytes` is the largest JavaScript heap at the times when the page responded. It does not respond while its script
runs, and typed arrays do not count. `memory_bytes` is the peak of the page's process as Linux reports it, including
code.

With `--click SELECTOR`, a drawn page is unfolded, and up to 200 of the elements that match are clicked, spread evenly
over the page. `click_ms` is the median, and `click_p95_ms` the 95th percentile, of the time from a click until its
effects are laid out.

`others` is the share of the processors that other processes used during a run. Above a few percent the time means
little. With `--wait` each run first waits, at most that many seconds, until nine tenths of the processors are idle. """

import argparse
import base64
import json
import math
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

BROWSERS = ["chromium", "chromium-browser", "google-chrome"]
FLAGS = [
    *["--headless", "--disable-gpu", "--no-sandbox", "--no-first-run", "--hide-scrollbars", "--disable-sync"],
    *["--disable-background-networking", "--disable-component-update", "--disable-extensions", "--disable-quic"],
    # Only the page's own process, so that its memory is its own.
    "--disable-features=SpareRendererForSitePerProcess",
    "--remote-allow-origins=*",
    "--remote-debugging-port=0",
]
# For Chumoku's pages, which report when the last thumbnail is drawn, and for BertViz's.
EXPECT = "html[data-thumbs=drawn], svg line"
# Seconds without a change after which a page without the expected elements counts as finished.
REST = 20
# In every frame, before it is drawn: has something changed? The browser keeps the number of elements until it does.
PROBE = """(() => {
  const probe = window.__probe = { seen: '', at: 0 };
  const look = () => {
    const root = Array.from(document.documentElement.attributes, attribute => attribute.name + '=' + attribute.value);
    const seen = document.getElementsByTagName('*').length + ' ' + root;
    if (seen !== probe.seen) Object.assign(probe, { seen, at: performance.now() });
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})()"""
# Answers after two frames, so that the effects of the script before it have been laid out.
STATE = """new Promise(answer => requestAnimationFrame(() => requestAnimationFrame(() => answer({
  origin: performance.timeOrigin, now: performance.now(), ...window.__probe,
  complete: document.readyState === 'complete', nodes: document.querySelectorAll('*').length,
  expected: document.querySelector(EXPECTED) !== null, own: document.documentElement.dataset.drawn || null,
  url: location.href, paint: performance.getEntriesByType('paint').map(e => e.startTime).pop() || null,
}))))"""


# Clicks on elements of a page whose parts are all unfolded. Reading the height lays out the effects of a click.
CLICKS = """(async () => {
  for (const fold of document.querySelectorAll('details')) fold.open = true;
  const frame = () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
  const all = [...document.querySelectorAll(SELECTOR)].filter(node => node.checkVisibility()), times = [];
  await frame();
  for (let i = 0, step = Math.max(1, all.length / 200); Math.floor(i) < all.length; i += step) {
    const start = performance.now();
    all[Math.floor(i)].click();
    document.documentElement.getBoundingClientRect();
    times.push(performance.now() - start);
    await frame();
  }
  return times;
})()"""


class Fault(Exception):
    """An error that prevents measuring any page, with the remedy."""


class Crash(Exception):
    """The page's process is gone."""


class Slow(Exception):
    """A timeout."""


class Browser:
    """A headless browser with one empty page, controlled through the DevTools protocol."""

    def __init__(self, program, window):
        self.profile = tempfile.mkdtemp(prefix="measure-page-")
        self.log = open(os.path.join(self.profile, "log"), "wb")
        command = [program, *FLAGS, f"--window-size={window}", f"--user-data-dir={self.profile}", "about:blank"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True
        )
        self.socket, self.last, self.session = None, 0, None
        self.answers, self.problems, self.is_crashed = {}, [], False
        # The last frame that differs from the one before (when, PNG), and how many there were.
        self.frame, self.changes = (0.0, b""), 0
        try:
            self._connect()
        except BaseException:
            self.close()
            raise

    def _connect(self):
        import websocket

        end = time.monotonic() + 60
        place = pathlib.Path(self.profile, "DevToolsActivePort")
        while not (place.is_file() and place.read_text().count("\n") == 1):
            if self.process.poll() is not None or time.monotonic() > end:
                self.log.flush()
                said = pathlib.Path(self.profile, "log").read_text(errors="replace").strip().splitlines()
                raise Fault(f"the browser did not start: {said[-1] if said else 'it said nothing'}")
            time.sleep(0.02)
        port, path = place.read_text().splitlines()
        self.socket = websocket.create_connection(f"ws://127.0.0.1:{port}{path}", timeout=60)
        self.version = self.call("Browser.getVersion")["product"]
        self.call("Target.setDiscoverTargets", {"discover": True})
        pages = [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"]
        self.target = pages[0]["targetId"]
        attached = self.call("Target.attachToTarget", {"targetId": self.target, "flatten": True})
        self.session = attached["sessionId"]
        for domain in ["Page", "Runtime", "Log", "Performance"]:
            self.call(domain + ".enable")

    def send(self, method, parameters=None):
        """Sends a request without waiting and returns its number."""
        self.last += 1
        message = {"id": self.last, "method": method, "params": parameters or {}}
        if self.session and not method.startswith(("Browser.", "Target.", "SystemInfo.")):
            message["sessionId"] = self.session
        self.socket.send(json.dumps(message))
        return self.last

    def pump(self, seconds):
        """Reads one message, or none within that time."""
        import websocket

        self.socket.settimeout(max(seconds, 0.001))
        try:
            message = json.loads(self.socket.recv())
        except (websocket.WebSocketTimeoutException, BlockingIOError):
            return
        except (websocket.WebSocketException, OSError) as error:
            raise Crash(f"the browser ended: {error}") from error
        if "id" in message:
            self.answers[message["id"]] = message
            return
        method, parameters = message["method"], message["params"]
        if method == "Page.screencastFrame":
            self.send("Page.screencastFrameAck", {"sessionId": parameters["sessionId"]})
            picture = base64.b64decode(parameters["data"])
            if picture != self.frame[1]:
                self.changes += 1
                self.frame = (parameters["metadata"]["timestamp"] * 1000, picture)
        elif method in ("Inspector.targetCrashed", "Target.targetCrashed"):
            self.is_crashed = True
        elif method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            thrown = details.get("exception", {}).get("description") or details["text"]
            self.problems.append(thrown.splitlines()[0])
        elif method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.problems.append(parameters["entry"]["text"])

    def wait(self, number, end):
        """Returns the answer to a request, read before the time `end`."""
        while number not in self.answers:
            if self.is_crashed:
                raise Crash("the page's process ended")
            if time.monotonic() > end:
                raise Slow
            self.pump(min(0.5, end - time.monotonic()))
        answer = self.answers.pop(number)
        if "error" in answer:
            raise RuntimeError(answer["error"]["message"])
        return answer["result"]

    def call(self, method, parameters=None, end=None):
        return self.wait(self.send(method, parameters), end or time.monotonic() + 60)

    def memory(self):
        """The peak of the largest page process, in bytes; None where there is no /proc."""
        peaks = []
        for process in self.call("SystemInfo.getProcessInfo")["processInfo"]:
            try:
                status = pathlib.Path(f"/proc/{process['id']}/status").read_text()
            except OSError:
                continue
            line = next((line for line in status.splitlines() if line.startswith("VmHWM")), None)
            if process["type"] == "renderer" and line:
                peaks.append(int(line.split()[1]) * 1024)
        return max(peaks, default=None)

    def close(self):
        if self.socket:
            try:
                self.send("Browser.close")
                self.socket.close()
            except Exception:  # it may be gone
                pass
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            pass
        # Remaining processes of the group.
        for _ in range(50):
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                break
            self.process.poll()
            time.sleep(0.05)
        self.log.close()
        shutil.rmtree(self.profile, ignore_errors=True)


def processors():
    """Returns the busy seconds and the total seconds of all processors together; None without /proc."""
    try:
        times = [int(x) for x in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    except (OSError, ValueError):
        return None
    ticks = os.sysconf("SC_CLK_TCK")
    return (sum(times) - times[3] - times[4]) / ticks, sum(times) / ticks


def own_seconds(group):
    """Returns the processor seconds of the processes of a group, including children that have ended."""
    total = 0
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[2]) == group:
            total += sum(int(x) for x in fields[11:15])
    return total / os.sysconf("SC_CLK_TCK")


def wait_for_rest(seconds):
    """Waits until the processors are idle for two seconds, or the time is up."""
    end = time.monotonic() + seconds
    while (before := processors()) and time.monotonic() < end:
        time.sleep(2)
        busy, there = (after - start for after, start in zip(processors(), before))
        if busy < 0.1 * there:
            break


def measure(program, page, arguments):
    """Measures one run."""
    before = processors()
    browser = Browser(program, arguments.window)
    run, heap, url = {"status": "timeout"}, 0, page.resolve().as_uri()
    try:
        browser.call("Page.addScriptToEvaluateOnNewDocument", {"source": PROBE})
        browser.call("Page.startScreencast", {"format": "png", "everyNthFrame": 1})
        asked = json.dumps(arguments.expect)
        state_of_page = {"expression": STATE.replace("EXPECTED", asked), "awaitPromise": True, "returnByValue": True}
        start, state, still = time.monotonic(), None, None
        end = start + arguments.timeout
        browser.send("Page.navigate", {"url": url})
        while True:
            try:
                answer = browser.call("Runtime.evaluate", state_of_page, end)
                metrics = browser.call("Performance.getMetrics", end=end)["metrics"]
            except RuntimeError:  # the empty page has gone, the next is not there yet
                continue
            heap = max([heap, *(int(m["value"]) for m in metrics if m["name"] == "JSHeapUsedSize")])
            state = answer["result"].get("value")
            if state is None or not state["url"].startswith("file:"):
                continue
            seen = (state["seen"], browser.changes)
            if still is None or seen != still[0]:
                still = (seen, time.monotonic())
            elif state["complete"]:
                enough = arguments.quiet if state["expected"] else max(REST, arguments.quiet)
                if time.monotonic() - still[1] >= enough:
                    break
            pause = time.monotonic() + 0.05
            while time.monotonic() < pause:
                browser.pump(pause - time.monotonic())
        if state["expected"]:
            frame = browser.frame[0] - state["origin"]
            own = None if state["own"] is None else float(state["own"])
            run |= {"status": "drawn", "drawn_ms": max(frame, state["at"]), "own_ms": own}
            run |= {"frame_ms": frame, "document_ms": state["at"], "first_paint_ms": state["paint"]}
        else:
            run |= {"status": "empty", "problem": f"nothing of {arguments.expect} is in the document"}
        run["nodes"] = state["nodes"]
        if arguments.click and state["expected"]:
            clicks = CLICKS.replace("SELECTOR", json.dumps(arguments.click))
            request = {"expression": clicks, "awaitPromise": True, "returnByValue": True}
            times = sorted(browser.call("Runtime.evaluate", request, end)["result"]["value"])
            if times:
                run |= {"clicks": len(times), "click_ms": statistics.median(times)}
                run |= {"click_p95_ms": times[math.ceil(0.95 * len(times)) - 1]}
        if arguments.screenshots:
            arguments.screenshots.mkdir(parents=True, exist_ok=True)
            picture = arguments.screenshots / f"{page.parent.name}-{page.stem}.png"
            picture.write_bytes(browser.frame[1])
    except Slow:
        run |= {"problem": f"not drawn in {arguments.timeout:g} s"}
    except Crash as crash:
        run |= {"status": "crashed", "problem": f"{crash} after {time.monotonic() - start:.0f} s"}
    finally:
        try:
            run["memory_bytes"] = browser.memory() if run["status"] != "crashed" else None
        except (Crash, Slow, RuntimeError):
            run["memory_bytes"] = None
        if before:
            busy, there = (after - start for after, start in zip(processors(), before))
            run["others"] = round(max(busy - own_seconds(browser.process.pid), 0) / max(there, 0.01), 3)
        browser.close()
    if browser.problems:
        run["problem"] = "; ".join([*([run["problem"]] if "problem" in run else []), *browser.problems[:3]])
    return run | {"heap_bytes": heap or None, "browser": browser.version}


def summary(page, runs):
    """Summarizes all runs of a page as one object."""
    failed = next((run for run in runs if run["status"] != "drawn"), None)
    report = {"page": str(page), "bytes": page.stat().st_size, "status": (failed or runs[-1])["status"]}
    drawn = [run["drawn_ms"] for run in runs if run["status"] == "drawn"]
    if drawn:
        report |= {"drawn_ms": statistics.median(drawn), "drawn_ms_least": min(drawn), "drawn_ms_most": max(drawn)}
    own = [run["own_ms"] for run in runs if run.get("own_ms") is not None]
    report["own_ms"] = statistics.median(own) if own else None
    for name in ["first_paint_ms", "click_ms", "click_p95_ms"]:
        values = [run[name] for run in runs if run.get(name) is not None]
        report[name] = statistics.median(values) if values else None
    for name in ["nodes", "heap_bytes", "memory_bytes", "others"]:
        report[name] = max((run[name] for run in runs if run.get(name) is not None), default=None)
    report["problem"] = next((run["problem"] for run in runs if "problem" in run), None)
    return report | {"browser": runs[-1]["browser"], "runs": runs}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="+", type=pathlib.Path, metavar="PAGE")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--timeout", type=float, default=120, help="seconds")
    parser.add_argument("--quiet", type=float, default=2, help="seconds without a change")
    parser.add_argument("--expect", default=EXPECT, help="CSS selector of an element of a drawn page")
    parser.add_argument("--click", metavar="SELECTOR", help="CSS selector of elements to click")
    parser.add_argument("--wait", type=float, default=0, help="seconds, at most, for other work to end")
    parser.add_argument("--window", default="1280,900")
    parser.add_argument("--browser", help="path of Chromium or Chrome")
    parser.add_argument("--screenshots", type=pathlib.Path, metavar="FOLDER", help="for the last frames")
    arguments = parser.parse_args()
    try:
        import websocket  # noqa: F401
    except ImportError:
        sys.exit("error: no websocket-client; pip install websocket-client")
    program = arguments.browser or next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        sys.exit(f"error: no browser; install Chromium (looked for {', '.join(BROWSERS)}), or name one with --browser")
    if arguments.runs < 1:
        sys.exit("error: --runs: expected 1 or more")
    runs = {page: [] for page in arguments.pages}
    try:
        for _ in range(arguments.runs):
            for page, done in runs.items():
                if done and done[-1]["status"] != "drawn":
                    continue
                with open(page, "rb") as file:
                    while file.read(1 << 24):
                        pass
                wait_for_rest(arguments.wait)
                done.append(measure(program, page, arguments))
                run = {name: value for name, value in done[-1].items() if name != "browser"}
                print(page.name, json.dumps(run), file=sys.stderr, flush=True)
    except (Fault, OSError) as fault:
        sys.exit(f"error: {fault}")
    for page, done in runs.items():
        print(json.dumps(summary(page, done)))


if __name__ == "__main__":
    main()
