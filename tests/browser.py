"""A headless Chromium, driven through its own protocol over a pipe: pages at a width, light or dark, on screen or paper.

    with Browser(program, folder) as browser:
        browser.open(path, width=360, dark=True)
        browser.evaluate("document.documentElement.scrollWidth")

One browser serves all pages of a test. Whatever takes over a minute ends the test.
"""

import base64
import contextlib
import json
import os
import pathlib
import select
import subprocess

PATIENCE_S = 60


class Browser:
    def __init__(self, program, folder):
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()

        def give_pipes():
            # The browser reads from descriptor 3 and writes to 4. Duplicates first, in case these are in use.
            reading, writing = os.dup(to_browser), os.dup(from_browser)
            os.dup2(reading, 3)
            os.dup2(writing, 4)

        self._process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
             f"--user-data-dir={folder}/browser", "about:blank"],
            preexec_fn=give_pipes, close_fds=False, stderr=subprocess.DEVNULL)  # fmt: skip
        os.close(to_browser)
        os.close(from_browser)
        self._number, self._read, self.events = 0, b"", []
        self._session = None
        targets = self._ask("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self._session = self._ask("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for part in ("Page", "Runtime", "Log"):
            self._ask(part + ".enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self._out)
        os.close(self._in)
        self._process.terminate()
        self._process.wait(PATIENCE_S)

    def open(self, path, width=1280, dark=False, height=900, scripts=True):
        """Loads a page. Returns its console messages."""
        self._ask("Emulation.setScriptExecutionDisabled", value=not scripts)
        self._ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self._scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._ask("Emulation.setEmulatedMedia", features=[self._scheme])
        self.events.clear()
        self._ask("Page.navigate", url=pathlib.Path(path).resolve().as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._receive()
        said = [event["params"] for event in self.events
                if event["method"] in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")]
        return [json.dumps(one)[:400] for one in said]

    def evaluate(self, expression):
        answer = self._ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    @contextlib.contextmanager
    def on_paper(self):
        """Lays out the open page for printing."""
        self._ask("Emulation.setEmulatedMedia", media="print", features=[self._scheme])
        yield
        self._ask("Emulation.setEmulatedMedia", media="", features=[self._scheme])

    def picture(self):
        """Returns the whole page as PNG."""
        return base64.b64decode(self._ask("Page.captureScreenshot", captureBeyondViewport=True)["data"])

    def print(self):
        """Returns the printed page as PDF."""
        return base64.b64decode(self._ask("Page.printToPDF", preferCSSPageSize=True)["data"])

    def _ask(self, method, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def _receive(self):
        """Returns the next message, and stores it if it is an event."""
        while b"\0" not in self._read:
            if not select.select([self._in], [], [], PATIENCE_S)[0]:
                raise TimeoutError("the browser does not answer")
            part = os.read(self._in, 1 << 20)
            if not part:
                raise RuntimeError("the browser has ended")
            self._read += part
        text, _, self._read = self._read.partition(b"\0")
        message = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message
