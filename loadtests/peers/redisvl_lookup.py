"""RedisVL's semantic cache, filled with the questions of the bench; vectors are given. `-m … URL`.

Its index needs the server's search commands (FT.*); a server without them is refused at the start, by name.
"""

from redisvl.extensions.cache.llm import SemanticCache
from redisvl.utils.vectorize import CustomTextVectorizer

from loadtests.peers import questions
from loadtests.peers.serving import Task, arguments, serve

_VALUE = '{"passages": []}'


def tasks(url: str) -> dict[str, Task]:
    """`look` for a question: what was stored, or null."""
    vectorizer = CustomTextVectorizer(lambda text: questions.vector(text).tolist())
    cache = SemanticCache(name="bench", redis_url=url, vectorizer=vectorizer, distance_threshold=0.1)
    vectors = {}
    for number in range(questions.COUNT):
        text = questions.asked(number)
        cache.store(prompt=text, response=_VALUE, vector=questions.vector(text).tolist())

    def prepare(text: str) -> None:
        vectors[text] = questions.vector(text).tolist()

    def look(text: str) -> str | None:
        found = cache.check(vector=vectors[text])
        return found[0]["response"] if found else None

    return {"prepare": prepare, "look": look}


if __name__ == "__main__":
    serve(tasks(arguments()[0]))
