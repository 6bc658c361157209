"""One line of JSON for each request: who asked for what and how it went, and never a word of it."""

import logging
from collections.abc import Mapping, MutableMapping
from typing import Any

log = logging.getLogger("sabueso.access")


def note(state: MutableMapping[str, Any], facts: Mapping[str, Any], *, quiet: bool = False) -> None:
    """Writes the line, at DEBUG if `quiet`. `facts`: of the connection; the rest is in the request's state.

    Left out on purpose: addresses, queries, headers, names of models that nobody serves.
    """
    level = logging.DEBUG if quiet else logging.INFO
    if not log.isEnabledFor(level):
        return
    line = dict(facts)
    caller = state.get("caller")
    if caller is not None:
        line["tenant"], line["key"] = caller.tenant.id, caller.identity.principal
        if caller.internal:
            line["internal"] = True
    model = state.get("model_label")
    if model is not None:
        meter = state["meter"]
        line["model"] = model
        if meter.dispatched or meter.exact:
            line["input_tokens"], line["output_tokens"] = meter.prompt_tokens, meter.completion_tokens
            line["tokens_exact"] = meter.exact
    # As `log.log` does, but for looking up who calls it.
    record = logging.LogRecord(log.name, level, "", 0, "request", None, None)
    record.__dict__.update(line)
    log.handle(record)
