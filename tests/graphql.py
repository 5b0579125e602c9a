"""Questions to a web server of Dagster."""

import json
import urllib.request
from typing import Any

from tests.limits import HANGS_AFTER_SECONDS


def ask(web: str, query: str, **variables: Any) -> Any:
    """The answer of the web server at an address to a query of GraphQL."""
    body = json.dumps({"query": query, "variables": variables}).encode()
    request = urllib.request.Request(f"{web}/graphql", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=HANGS_AFTER_SECONDS) as response:
        answer = json.load(response)
    assert "errors" not in answer, answer
    return answer["data"]
