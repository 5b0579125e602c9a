"""One page of a browser, and what a person does and sees on it."""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dagster_graphql.client.query import LAUNCH_PIPELINE_EXECUTION_MUTATION
from playwright.sync_api import Page, TimeoutError, sync_playwright

import lakehouse_core as lc
from tests.graphql import ask

ROOT = Path(__file__).parent.parent.parent
SCREENSHOTS = ROOT / "build" / "screenshots"
# A page loads in some seconds; sensors look once a minute.
SECONDS = 300

RUN = "query($id: ID!) { runOrError(runId: $id) { ... on Run { status } } }"


class Ui:
    """Dagster's pages of a warehouse, and one page of a browser."""

    def __init__(self, web: str, warehouse: Path, page: Page, location: str = "lakehouse") -> None:
        self.web, self.warehouse, self.page, self.location = web, warehouse, page, location
        self.errors: list[str] = []
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def open(self, path: str) -> None:
        self.page.goto(f"{self.web}{path}")

    def sees(self, *texts: str) -> None:
        """Wait until the page shows texts, and load it again meanwhile. A picture is kept of a page that lacks one."""
        deadline = time.monotonic() + SECONDS
        for text in texts:
            while True:
                try:
                    self.page.get_by_text(text).first.wait_for(timeout=20_000)
                    break
                except TimeoutError:
                    if time.monotonic() > deadline:
                        self.keep(f"without {texts.index(text)} of {os.environ['PYTEST_CURRENT_TEST'].split('::')[1]}")
                        raise
                    self.page.reload()

    def keep(self, name: str) -> None:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=str(SCREENSHOTS / f"{name}.png"), full_page=True)

    def run(self, job: str, keys: list[tuple[str, ...]], config: dict[str, Any], **tags: str) -> tuple[str, str]:
        """Start a run of some assets as their pages do; return its identifier and how it ended."""
        parameters = {
            "selector": {
                "repositoryLocationName": self.location,
                "repositoryName": "__repository__",
                "pipelineName": job,
                "assetSelection": [{"path": list(key)} for key in keys],
            },
            "runConfigData": config,
            "executionMetadata": {"tags": [{"key": key.replace("__", "/"), "value": tags[key]} for key in tags]},
        }
        answer = ask(self.web, LAUNCH_PIPELINE_EXECUTION_MUTATION, executionParams=parameters)
        run_id: str = answer["launchPipelineExecution"]["run"]["runId"]
        deadline = time.monotonic() + 2 * SECONDS
        while (status := ask(self.web, RUN, id=run_id)["runOrError"]["status"]) not in ("SUCCESS", "FAILURE"):
            assert time.monotonic() < deadline, f"run {run_id} is {status}"
            time.sleep(1)
        return run_id, status

    def table(self, name: str) -> lc.Table:
        return lc.connect(str(self.warehouse)).table(name)


@contextmanager
def browser_page() -> Iterator[Page]:
    """Give a page of Chromium."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert chromium, "no Chromium is found (Debian: apt-get install chromium)"
    with sync_playwright() as playwright:
        # Chromium's own sandbox needs another user than root.
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=chromium, args=sandbox)
        yield browser.new_page(viewport={"width": 1500, "height": 1200})
        browser.close()
