"""Answers made-up questions once, so that the first real one finds its patterns compiled and its tables built."""

import json
from datetime import date

from fastapi.responses import StreamingResponse
from starlette.types import Message

from services.understudy.completion import Head, completion, deltas
from services.understudy.conversation import read_conversation
from services.understudy.generation import generate
from services.understudy.protocol import ChatRequest
from services.understudy.reply import decide
from services.understudy.tokens import count_tokens

_QUESTIONS = (
    "How many orders above 10k€ did we sign in 2020 with partners outside the EU, and which special conditions recur?",
    "¿Cuántos pedidos de más de 10k€ firmamos en 2020 con socios de fuera de la UE, y qué condiciones se repiten?",
    "What does order AB-2020-17 say about returns, and what is the news today?",
    "¿Qué dice el pedido AB-2020-17 sobre devoluciones, y qué noticias hay hoy?",
)
_SCHEMA = """CREATE TABLE partners ( -- Partners (socios)
  id integer PRIMARY KEY, -- Number
  region text -- Region (región). Values: 'EU' = European Union; Unión Europea, UE
);
CREATE TABLE orders ( -- Orders (pedidos)
  id text PRIMARY KEY, -- Code, such as AB-2020-17 (código)
  partner_id integer REFERENCES partners (id), -- Partner (socio)
  amount numeric, -- Value (importe). Unit: EUR
  signed_on date -- Day of signature (fecha de firma)
);"""
_TEXTS = (
    "2. Returns\n- Clause 2.1: AB-2020-17 comes back in 30 days [1].\n\n| Place | Days |\n|--|--|\n| EU | 9 |",
    "2. Devoluciones\n**Cláusula 2.1** De AB-2020-17 se devuelve todo. El plazo es el siguiente:\n- UE: 9.",
)
_RESULTS = {
    "sql_query": {"n": 9, "columns": ["count", "total_eur"], "rows": [[2, "1.50"]], "row_count": 1, "truncated": False},
    "vector_search": {
        "passages": [
            {"n": n, "document_id": f"d{n}", "title": "T", "section": "T > 2. Returns", "text": text}
            for n, text in enumerate((*_TEXTS, *_TEXTS), start=1)
        ]
    },
    "web_search": {
        "results": [{"n": 8, "title": "News", "url": "", "snippet": "The news today is good.", "published": ""}]
    },
}


async def warm_up(model: str) -> None:
    """Takes some 20 ms; changes nothing but caches."""
    # The first stream loads the rest of the web framework.
    await StreamingResponse(iter(()))({"type": "http"}, _left, _nowhere)
    for question in _QUESTIONS:
        for tool in (None, *_RESULTS):
            request = ChatRequest.model_validate_json(json.dumps(_body(question, tool)))
            conversation = read_conversation(request.plain_messages())
            reply = decide(conversation, request.offered(), request.choice(), date.today())
            generation = generate(reply, max_tokens=count_tokens(question) * 100)
            head = Head("warm-up", 0, model)
            deltas(head, generation.pieces)
            completion(head, generation, 0)


async def _left() -> Message:
    return {"type": "http.disconnect"}


async def _nowhere(message: Message) -> None:
    pass


def _body(question: str, answered: str | None) -> dict[str, object]:
    messages: list[dict[str, object]] = [{"role": "user", "content": question}]
    if answered:
        messages.append({"role": "tool", "name": answered, "content": json.dumps(_RESULTS[answered])})
    described = {"vector_search": "Searches documents.", "sql_query": _SCHEMA, "web_search": "Searches the web."}
    parameters = {"type": "object", "properties": {"query": {"type": "string"}, "top_k": {"type": "integer"}}}
    functions = [{"name": n, "description": text, "parameters": parameters} for n, text in described.items()]
    return {"messages": messages, "tools": [{"type": "function", "function": one} for one in functions]}
