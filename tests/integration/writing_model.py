"""An OpenAI-compatible server that writes questions by rule, and remembers what it was asked."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def answer(task, facts):
    """What a good model would say, by rule."""
    match task:
        case "questions":
            quote = first_sentence(facts["text"])
            return {"items": [{"question": f"What about {quote}?", "reference": quote, "quote": quote}]}
        case "two_passages":
            first, second = (first_sentence(facts[one]["text"]) for one in ("first", "second"))
            both = {"first_quote": first, "second_quote": second}
            return {
                "items": [
                    {"question": f"Which of both: {first} or {second}?", "reference": f"{first}, {second}"} | both
                ]
            }
        case "false_premise":
            quote = first_sentence(facts["text"])
            return {"question": f"Why never {quote}?", "premise": f"Never {quote}", "quote": quote, "correction": quote}
        case "unanswerable":
            return {"question": f"Who wrote about {first_sentence(facts['text'])}?"}
        case "closed_book":
            return {"known": False, "answer": ""}
        case "clear":
            whole = " ".join(one["text"] for one in facts["passages"])
            answered = all(part.strip() in whole for part in facts["reference"].split(", "))
            return {"reason": "", "by_itself": True, "answered": answered, "one_answer": True}
        case _:
            return {"reason": "", "found": False, "same": False}


def first_sentence(text):
    return text.split(".")[0].strip()


class WritingHandler(BaseHTTPRequestHandler):
    """One completion a call. After `most` calls it holds its answers until it is told to go on."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        self._send(
            *self.server.pages.get(self.path, (404, {"error": {"message": "no such page", "code": "not_found"}}))
        )

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        form = asked["response_format"]["json_schema"]
        facts = json.loads(asked["messages"][1]["content"])
        with self.server.counting:
            self.server.asked.append((form["name"], asked["messages"][1]["content"]))
            held = self.server.most is not None and len(self.server.asked) > self.server.most
        if held:
            self.server.holding.set()
            self.server.go_on.wait(60)
        if self.server.failing:
            return self._send(400, {"error": {"message": "no such model"}})
        said = answer(form["name"], facts)
        said = {name: value for name, value in said.items() if name in form["schema"]["properties"]}
        choice = {"index": 0, "message": {"role": "assistant", "content": json.dumps(said)}, "finish_reason": "stop"}
        whole = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        return self._send(200, whole)

    def _send(self, status, content):
        body = json.dumps(content).encode()
        try:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            pass  # whoever asked was stopped


class WritingServer(ThreadingHTTPServer):
    """`asked`: tasks with their facts, in the order of arrival. `pages`: status and JSON of what is read, by path."""

    daemon_threads = True

    def __init__(self, most=None):
        super().__init__(("127.0.0.1", 0), WritingHandler)
        self.asked, self.most, self.failing = [], most, False
        self.pages = {}
        self.counting, self.holding, self.go_on = threading.Lock(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/v1"

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *raised):
        self.go_on.set()
        self.shutdown()
        self._thread.join()
        self.server_close()
