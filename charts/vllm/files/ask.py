"""Asks a model server which models it has, and its model one question; for `helm test`."""

import json
import os
import urllib.request


def call(path, body=None):
    request = urllib.request.Request(os.environ["URL"] + path, json.dumps(body).encode() if body else None)
    request.add_header("Content-Type", "application/json")
    if "API_KEY" in os.environ:
        request.add_header("Authorization", "Bearer " + os.environ["API_KEY"])
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)


model = os.environ["MODEL"]
served = [one["id"] for one in call("/models")["data"]]
assert model in served, f"{model} is not among {served}"
question = {"model": model, "messages": [{"role": "user", "content": "Say yes."}], "max_tokens": 4}
print(call("/chat/completions", question)["choices"][0]["message"]["content"])
