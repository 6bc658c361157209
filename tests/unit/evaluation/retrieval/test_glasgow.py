import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.evaluation.retrieval import glasgow
from services.evaluation.retrieval.collection import BrokenCollection


def records(texts, first=1, step=1, fields="W"):
    return "".join(f".I {first + step * n:03d}\n.{fields}\n{text}\n" for n, text in enumerate(texts))


@pytest.fixture
def cranfield(tmp_path):
    """Our own words in Cranfield's shape: numbers are printed that judgements do not use."""
    folder = tmp_path / "cranfield"
    folder.mkdir()
    documents = [
        f".I {n}\n.T\nwing {n} .\n.A\nsomebody\n.B\n1958.\n.W\nwing {n} .\n  lift of\nwing {n} .\n" for n in (1, 2)
    ]
    (folder / "cran.all.1400").write_text("".join(documents) + ".I 3\n.T\n.A\n.B\n.W\n")
    (folder / "cran.qry").write_text(records(["lift of one wing", "lift of two wings"], first=1, step=7))
    (folder / "cran.qrels").write_text("1 1 2\n1 2 -1\n2 2 4 \n")
    return folder


def test_cranfields_questions_are_numbered_as_they_come(cranfield):
    collection = glasgow.load(cranfield)
    assert [(one.question_id, one.relevant) for one in collection.questions] == [("1", {"1"}), ("2", {"2"})]


def test_judgements_that_use_the_printed_numbers_are_refused(cranfield):
    (cranfield / "cran.qrels").write_text("001 1 1\n008 2 1\n")
    with pytest.raises(BrokenCollection, match="only 50% of the judged question ids exist"):
        glasgow.load(cranfield)


def test_a_code_of_minus_one_is_not_relevant(cranfield):
    assert glasgow.load(cranfield).questions[0].relevant == {"1"}


def test_a_title_that_the_text_repeats_is_there_once(cranfield):
    first = glasgow.load(cranfield).passages[0]
    assert (first.title, first.text) == ("wing 1 .", "lift of wing 1 .")


def test_empty_documents_stay_and_are_known_as_such(cranfield):
    assert [one.is_blank for one in glasgow.load(cranfield).passages] == [False, False, True]


def test_medlines_passage_is_in_the_third_column_and_letters_are_latin_1(tmp_path):
    folder = tmp_path / "medline"
    folder.mkdir()
    (folder / "MED.ALL").write_bytes(records(["d\xe9ficit", "plasma"]).encode("latin-1"))
    (folder / "MED.QRY").write_text(records(["which deficit"]))
    (folder / "MED.REL").write_text("1 0 2 1\n")
    collection = glasgow.load(folder)
    assert collection.passages[0].text == "d\xe9ficit"
    assert collection.questions[0].relevant == {"2"}


def test_cisis_cross_references_are_no_text(tmp_path):
    folder = tmp_path / "cisi"
    folder.mkdir()
    (folder / "CISI.ALL").write_text(
        ".I 1\n.T \nUse of libraries\n.A \nSlater\n.W\nActs of use.\n.X\n1\t5\t1\n92\t1\t1\n"
    )
    (folder / "CISI.QRY").write_text(".I 1\n.T\nLibraries\n.W\nWho uses them?\n.B\n(JASIS)\n.I 2\n.W\nnobody judged\n")
    (folder / "CISI.REL").write_text("     1     1\t0\t0.000000\n")
    collection = glasgow.load(folder)
    assert (collection.passages[0].title, collection.passages[0].text) == ("Use of libraries", "Acts of use.")
    assert [one.text for one in collection.questions] == ["Libraries Who uses them?"]


WORDS = st.text("abc .-é", max_size=30)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.lists(WORDS, min_size=1, max_size=6))
def test_each_record_is_one_passage_with_its_words(cranfield, texts):
    # A line that begins like a record's or a field's is one: the format has no way to say otherwise.
    lines = [f"x {text}" for text in texts]
    (cranfield / "cran.all.1400").write_text(records(lines), encoding="latin-1")
    (cranfield / "cran.qrels").write_text("1 1 1\n")
    assert [one.text for one in glasgow.load(cranfield).passages] == [" ".join(line.split()) for line in lines]


def test_a_file_without_records_is_refused(cranfield):
    (cranfield / "cran.qry").write_text("nothing\n")
    with pytest.raises(BrokenCollection, match=r"cran\.qry holds no records"):
        glasgow.load(cranfield)
