"""What LlamaIndex' OpenAI class makes of the gateway. Arguments: URL, key. Prints what it got, as JSON."""

import json
import sys

from llama_index.core.llms import ChatMessage
from llama_index.llms.openai_like import OpenAILike

url, key = sys.argv[1:]
model = OpenAILike(model="sabueso", api_base=f"{url}/v1", api_key=key, is_chat_model=True, max_retries=0)
turns = [ChatMessage(role="user", content="¿Cuántos contratos?")]
got = {
    "chat": model.chat(turns).message.content,
    "streamed": "".join(piece.delta or "" for piece in model.stream_chat(turns)),
    "completed": model.complete("¿Cuántos contratos?").text,
}
print(json.dumps(got))
