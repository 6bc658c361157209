"""What `helm test` asks a release: is it ready, which models has it, does it answer. Python's own library only."""

import json
import os
import time
import urllib.error
import urllib.request

GATEWAY, QUESTION = os.environ["GATEWAY"], os.environ["QUESTION"]
KEY = os.environ.get("API_KEY", "")
WAIT_SECONDS = float(os.environ.get("WAIT_SECONDS", "120"))


def call(path, body=None):
    """Status and text of an answer; 0 when nobody answers."""
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {KEY}"} if KEY else {})
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(GATEWAY + path, content, headers)
    # No proxy of the environment's: the gateway is in this cluster.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=120) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(errors="replace")
    except OSError as error:
        return 0, str(error)


def expect(what, path, status, body=None, wait_seconds=0):
    """Ends with status 1 unless the answer has this status, by then."""
    deadline = time.monotonic() + wait_seconds
    while True:
        got, text = call(path, body)
        if got == status:
            print(f"ok: {what}")
            return text
        if time.monotonic() > deadline:
            raise SystemExit(f"failed: {what}: {path} answered {got or 'nothing'}, not {status}: {text[:500]}")
        time.sleep(2)


def main():
    """All checks, one after another."""
    # It says of every service, asked by gRPC, whether it serves.
    print(expect("the gateway and what it needs are ready", "/readyz", 200, wait_seconds=WAIT_SECONDS))
    if not KEY:
        expect("callers without a key are refused", "/v1/models", 401)
        print("tests.existingSecret names no key: no question was asked")
        return
    models = json.loads(expect("models are listed", "/v1/models", 200))
    if not any(model["id"] == "sabueso" for model in models["data"]):
        raise SystemExit(f"failed: the model `sabueso` is not among {[model['id'] for model in models['data']]}")
    question = {"model": "sabueso", "messages": [{"role": "user", "content": QUESTION}]}
    answer = json.loads(expect("a question is answered", "/v1/chat/completions", 200, question))
    if not answer["choices"][0]["message"]["content"]:
        raise SystemExit("failed: the answer is empty")


if __name__ == "__main__":
    main()
