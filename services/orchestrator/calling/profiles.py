"""What is particular to each family of models: how it writes tool calls as text, and what its chat template takes.

Sources: the tool parsers and example templates of vLLM (`docs/features/tool_calling.md`,
`examples/tool_chat_template_*`), Meta's prompt formats for Llama 3.1, NousResearch's Hermes function calling,
mistral-common, and the model cards of Qwen. Common to all and therefore in no column: over an OpenAI-compatible API
results have the role `tool` (Llama's own template makes `ipython` of it) and arguments are a JSON text; both
`arguments` and `parameters` are read as their name.
"""

import re
from dataclasses import dataclass
from enum import Enum


class Form(Enum):
    """What text may hold besides an answer. What stands between the marks of one is held until it is read."""

    TOOL_CALL_TAG = (
        "<tool_call>"  # {"name", "arguments"}, or <function=name><parameter=key>value</parameter></function>
    )
    FUNCTION_TAG = "<function="  # <function=name>{…}</function>
    PYTHON_TAG = "<|python_tag|>"  # {"name", "parameters"}; {…}; … to the end
    TOOL_CALLS_MARK = "[TOOL_CALLS]"  # [{"name", "arguments"}, …], or name[ARGS]{…}, again and again, to the end
    THOUGHT = "<think>"  # for nobody
    BARE_JSON = "{"  # the same objects without any mark: only with names of tools on offer


@dataclass(frozen=True)
class Profile:
    """A family. `served_as` finds it in the name under which a model is served.

    `parallel`: makes several calls in one turn by itself. `strict`: tool schemas may carry `strict` (vLLM of before
    constrained calls answers it with 400). `calls_per_message`: more in one message of the transcript are refused by
    the template; 0 is no limit. `alternating`: after the system message, user and assistant take turns. `one_system`:
    there is one system message, and it comes first. `text_beside_calls`: a message with calls may hold text.
    `null_content`: where it holds none, it is null. `call_id_chars`: length that ids must have; 0 leaves them alone.
    """

    name: str
    served_as: re.Pattern[str] | None = None
    forms: tuple[Form, ...] = ()
    parallel: bool = True
    strict: bool = False
    calls_per_message: int = 0
    alternating: bool = False
    one_system: bool = False
    text_beside_calls: bool = True
    null_content: bool = False
    call_id_chars: int = 0


OPENAI = Profile("openai")
HERMES = Profile(
    "hermes",
    re.compile(r"hermes", re.I),
    (Form.THOUGHT, Form.TOOL_CALL_TAG, Form.BARE_JSON),
)
LLAMA3_JSON = Profile(
    "llama3_json",
    re.compile(r"llama-?_?3", re.I),
    (Form.PYTHON_TAG, Form.FUNCTION_TAG, Form.BARE_JSON),
    parallel=False,
    calls_per_message=1,
)
MISTRAL = Profile(
    "mistral",
    re.compile(r"mistral|mixtral|ministral|magistral|devstral", re.I),
    (Form.TOOL_CALLS_MARK, Form.BARE_JSON),
    alternating=True,
    one_system=True,
    text_beside_calls=False,
    null_content=True,
    call_id_chars=9,
)
QWEN3 = Profile(
    "qwen3",
    re.compile(r"qwen|qwq", re.I),
    (Form.THOUGHT, Form.TOOL_CALL_TAG, Form.FUNCTION_TAG, Form.BARE_JSON),
    one_system=True,
)
# In the order in which a served name is compared with them: `Hermes-3-Llama-3.1-70B` is Hermes.
PROFILES = {one.name: one for one in (HERMES, LLAMA3_JSON, MISTRAL, QWEN3, OPENAI)}


def profile_of(name: str, served_name: str) -> Profile:
    """The profile of this name; for `auto` that of the family that the served name speaks of, else `openai`."""
    if name != "auto":
        return PROFILES[name]
    return next((one for one in PROFILES.values() if one.served_as and one.served_as.search(served_name)), OPENAI)
