"""Items, records and a stack that answers by a table, for tests of runs."""

from dataclasses import replace

from services.evaluation.answered import Answered, Call, Passage
from services.evaluation.golden.item import ExpectedCall, Item, Stratum
from services.evaluation.golden.sets import About, GoldenSet
from services.evaluation.runs.record import Evidence, Record

WARRANTY = Item(
    "warranty-en",
    "How long is the warranty?",
    "en",
    Stratum.SINGLE_HOP,
    ("warranty",),
    (ExpectedCall("vector_search"),),
    "The warranty runs for 24 months.",
    contains=(("24 months", "two years"),),
    family="warranty",
)
GARANTIA = replace(
    WARRANTY,
    id="warranty-es",
    question="¿Cuánto dura la garantía?",
    language="es",
    reference="La garantía dura 24 meses.",
    contains=(("24 meses", "dos años"),),
)
CANTEEN = Item("canteen-en", "When does the canteen serve fish?", "en", Stratum.UNANSWERABLE)
HELLO = Item("hello-en", "Good morning!", "en", Stratum.NO_TOOL)
ITEMS = (WARRANTY, GARANTIA, CANTEEN, HELLO)


def golden(items=ITEMS):
    about = About(name="small", version=1, licence="Apache-2.0", languages=["es", "en"], made_by="hand")
    return GoldenSet(about, tuple(items))


def right(item):
    """What a good product answers."""
    if item.stratum is Stratum.NO_TOOL:
        return Answered(item.question, "Hello! How can I help?", item.language)
    if item.reference is None:
        return Answered(item.question, "I do not know.", item.language, finish="refused")
    return Answered(
        item.question,
        f"{item.reference[:-1]} [1].",
        item.language,
        passages=(Passage(item.reference, "warranty", 0.9), Passage("The canteen opens at noon.", "canteen", 0.2)),
        calls=(Call("vector_search", {"query": item.question}),),
        milliseconds={"total": 120.0},
        tokens={"prompt": 10, "completion": 5},
    )


def record(item, answered, variant="agent", cited=("warranty",)):
    cited = cited if answered is not None and answered.passages else ()
    return Record(item.id, variant, answered, Evidence.SHOWN, cited)


class TableStack:
    """Answers by `answer(item, variant)`: an Answered, or a text that says why there is none."""

    def __init__(self, answer=lambda item, variant: right(item)):
        self.answer = answer
        self.asked = []

    async def ask(self, item, variant):
        self.asked.append((item.id, variant.name))
        said = self.answer(item, variant)
        if isinstance(said, str):
            return Record(item.id, variant.name, None, failure=said)
        return record(item, said, variant.name)
