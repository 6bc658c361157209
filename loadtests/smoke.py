"""Does it work with a few users at once? Locust: `make load-smoke`, against the stack that `make up` started.

Every answer is checked for what it must say. One failure, or one question never asked, and the exit status is 1.
"""

import time
from itertools import count, cycle
from typing import Any

from locust import HttpUser, constant_pacing, events, task
from locust.env import Environment

from loadtests.answers import StreamedAnswer, questions, request
from services.cli.config import Settings

_SETTINGS = Settings()
_QUESTIONS = questions(
    "flagship-es", "flagship-en", "contracts-2024", "travel-expenses", "removable-media", "copper"
)  # fmt: skip
_answered: set[str] = set()
_people = count()


class Person(HttpUser):
    """Asks one question a second, the next as soon as the answer is there when it took longer."""

    host = _SETTINGS.url
    wait_time = constant_pacing(1)

    def on_start(self) -> None:
        """Each person begins with another question."""
        self.client.trust_env = False
        self.client.headers["Authorization"] = f"Bearer {_SETTINGS.api_key.get_secret_value()}"
        first = next(_people) % len(_QUESTIONS)
        self._questions = cycle(_QUESTIONS[first:] + _QUESTIONS[:first])

    @task
    def ask(self) -> None:
        """One question, streamed; Locust's line `answer` is the time to its end, `first token` to its first word."""
        question = next(self._questions)
        body = request(question.text, stream=True)
        answer = StreamedAnswer(time.perf_counter())
        with self.client.post(
            "/v1/chat/completions", json=body, stream=True, catch_response=True, name="answer", timeout=30
        ) as response:
            if response.status_code == 200:
                for line in response.iter_lines(decode_unicode=False):
                    answer.feed(line.decode(), time.perf_counter())
                problem = answer.problem(question)
            elif response.status_code:
                problem = f"status {response.status_code}"
            else:
                problem = f"{_SETTINGS.url} cannot be reached; is it running?"
            response.request_meta["response_time"] = 1000 * (time.perf_counter() - answer.started)
            if problem:
                response.failure(f"{question.id}: {problem}")
                return
        _answered.add(question.id)
        self._report("first event", answer.milliseconds_to_first_event())
        self._report("first token", answer.milliseconds_to_first_token())

    def _report(self, name: str, milliseconds: float) -> None:
        self.environment.events.request.fire(
            request_type="SSE", name=name, response_time=milliseconds, response_length=0, exception=None, context={}
        )


@events.quitting.add_listener
def _judge(environment: Environment, **_: Any) -> None:
    never = [question.id for question in _QUESTIONS if question.id not in _answered]
    if never:
        print(f"never answered: {', '.join(never)}")
        environment.process_exit_code = 1
