"""Reproduction: a script that makes the requests of the failing rows again. It holds the answers as they were."""

import json

from equiscope.audit.served.endpoint import Endpoint
from equiscope.record import Audit

BETWEEN = 40  # requests between the two that differ, which are made too: they may be what changes the answer
TEMPLATE = '''"""The requests for which {title} failed a check, with the answers as they were. Needs Python alone.

    python {name} [http://HOST:PORT/v1]

Sends each request again and prints the logprobs of both answers, as they were and as they are. A key is read from the environment
variable EQUISCOPE_KEY.
"""

import json
import os
import sys
import urllib.request

URL = sys.argv[1] if len(sys.argv) > 1 else {url}
CASES = json.loads({cases})


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments):
        return None


OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({{}}), NoRedirect)


def ask(path, body):
    headers = {{"Content-Type": "application/json"}}
    if os.environ.get("EQUISCOPE_KEY"):
        headers["Authorization"] = "Bearer " + os.environ["EQUISCOPE_KEY"]
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), headers)
    with OPENER.open(request, timeout=120) as answer:
        return json.load(answer)


def displayed(answer, index):
    choices = sorted(answer["choices"], key=lambda choice: choice.get("index", 0))
    choice = choices[index]
    logprobs = choice.get("logprobs") or {{}}
    pairs = [(t["token"], t["logprob"]) for t in logprobs.get("content") or ()] or list(
        zip(logprobs.get("tokens", ()), logprobs.get("token_logprobs", ()))
    )
    text = choice["message"]["content"] if "message" in choice else choice["text"]
    numbers = "  ".join(f"{{t!r}} {{p if p is None else round(p, 6)}}" for t, p in pairs)
    return f"{{choice.get('finish_reason')}} {{text!r}}\\n        {{numbers}}"


for case in CASES:
    print(f"{{case['row']}}: {{case['what']}}\\n  {{case['cause']}}")
    for request in case["requests"]:
        now = ask(request["path"], request["body"])
        if "answer" in request:
            for index in request["displayed"]:
                print(f"  prompt {{index + 1}} of the request {{json.dumps(request['body'])[:300]}}")
                print("    then", displayed(request["answer"], index))
                print("    now ", displayed(now, index))
'''


def script(endpoint: Endpoint, audit: Audit, evidence: dict[str, tuple[str, tuple[tuple[int, int], ...]]]) -> str:
    """The text of the script; empty where no row failed with answers that show it.

    evidence  row -> what was asked, and the number and the prompt of each request that shows it
    """
    cases = []
    for row in audit.failed:
        what, requests = evidence.get(row.name, ("", ()))
        if not requests:
            continue
        displayed: dict[int, list[int]] = {}
        for number, index in requests:
            displayed.setdefault(number, []).append(index)
        first, last = min(displayed), max(displayed)
        numbers = range(first, last + 1) if last - first <= BETWEEN else sorted(displayed)
        cases.append(
            {
                "row": row.name,
                "what": what,
                "cause": row.cause,
                "requests": [_request(endpoint, n, displayed) for n in numbers if endpoint.requests[n][0]],
            }
        )
    if not cases:
        return ""
    text = json.dumps(cases, ensure_ascii=True, indent=1)
    return TEMPLATE.format(
        title=json.dumps(audit.target)[1:-1],
        name="FILE",
        url=repr(audit.target),
        cases="r'''\n" + text.replace("'", "\\u0027") + "\n'''",
    )


def _request(endpoint: Endpoint, number: int, displayed: dict[int, list[int]]) -> dict[str, object]:
    path, body, answer = endpoint.requests[number]
    found: dict[str, object] = {"path": path, "body": body}
    if number in displayed:
        found |= {"displayed": sorted(set(displayed[number])), "answer": {"choices": answer["choices"]}}
    return found
