"""What tests of citing share: sources, and an answer that went through filter and review."""

from services.orchestrator.citing.marks import CitationFilter
from services.orchestrator.citing.review import Draft
from services.orchestrator.citing.reviewer import EvidenceReviewer
from services.orchestrator.citing.support import Support
from services.orchestrator.model import Spent
from services.orchestrator.results import Passage, Reply, Rows


def passage(text, title="Contract", section="Payment", language="en"):
    return Passage("doc", text[:9], title, "c.pdf", 1, section, language, text)


def rows(columns, *values, statement="SELECT …", params="[]"):
    return Rows(statement, params, tuple(columns), tuple(values))


def reckoned(expression, result):
    return Reply("calculate", "{}", f"{expression} = {result}", trusted=True)


def streamed(answer, *sources, question="", piece=7):
    """The text that is shown, and what was found while it streamed."""
    marked = dict(enumerate(sources, start=1))
    citations = CitationFilter(marked.__contains__, Support(marked, question).judge)
    shown = "".join(citations.feed(answer[at : at + piece]) for at in range(0, len(answer), piece)) + citations.flush()
    return shown, list(citations.take_findings())


async def reviewed(answer, *sources, question="", reviewer=None, said=()):
    draft = Draft(question, answer, dict(enumerate(sources, start=1)), said=said)
    return await (reviewer or EvidenceReviewer()).review(draft, Spent(), 30)


async def numbers_of(answer, *sources, question=""):
    """The numbers that nothing accounts for."""
    return [
        one.text for one in (await reviewed(answer, *sources, question=question)).findings if one.kind.value == "number"
    ]
