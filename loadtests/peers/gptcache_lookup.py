"""GPTCache with SQLite and FAISS, filled with the questions of the bench; vectors are given. `-m … FOLDER`."""

from gptcache import Cache, Config
from gptcache.adapter.api import get
from gptcache.manager import manager_factory
from gptcache.processor.pre import get_prompt
from gptcache.similarity_evaluation import SearchDistanceEvaluation

from loadtests.peers import questions
from loadtests.peers.serving import Task, arguments, serve

_VALUE = '{"passages": []}'


def tasks(folder: str) -> dict[str, Task]:
    """`look` for a question: what was stored, or null."""
    vectors = {}
    cache = Cache()
    cache.init(
        pre_embedding_func=get_prompt,
        embedding_func=lambda text, **_: vectors[text],
        data_manager=manager_factory(
            "sqlite,faiss",
            data_dir=folder,
            vector_params={"dimension": questions.DIMENSIONS},
            eviction_params={"max_size": 2 * questions.COUNT},
        ),
        similarity_evaluation=SearchDistanceEvaluation(max_distance=4.0, positive=False),
        config=Config(similarity_threshold=0.9),
    )
    texts = [questions.asked(number) for number in range(questions.COUNT)]
    vectors.update((text, questions.vector(text)) for text in texts)
    cache.import_data(texts, [_VALUE] * len(texts))

    def prepare(text: str) -> None:
        vectors[text] = questions.vector(text)

    return {"prepare": prepare, "look": lambda text: get(text, cache_obj=cache)}


if __name__ == "__main__":
    serve(tasks(arguments()[0]))
