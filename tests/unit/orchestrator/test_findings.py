from services.orchestrator.findings import Findings
from services.orchestrator.results import Passage, Passages, Rows

ANA, BEA = ("acme", "ana"), ("acme", "bea")


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def told(*texts):
    return [Passages(tuple(Passage("d", str(n), "", "", 0, "", "", text) for n, text in enumerate(texts)))]


def test_a_callers_codes_are_known_until_some_time_after_the_last_call():
    clock = Clock()
    findings = Findings(ttl_seconds=60, clock=clock)
    findings.note(ANA, told("contract CT-2025-0091"))
    clock.now = 50
    findings.note(ANA, [Rows("s", "", ("amount",), (("8300123.45",),))])
    clock.now = 109
    assert list(findings.of(ANA)) == ["CT-2025-0091", "8300123"]
    clock.now = 110
    assert findings.of(ANA) == ()


def test_callers_know_nothing_of_each_other():
    findings = Findings()
    findings.note(ANA, told("contract CT-2025-0091"))
    assert findings.of(BEA) == ()
    assert findings.of(("other", "ana")) == ()


def test_what_holds_no_code_is_not_remembered():
    findings = Findings()
    findings.note(ANA, told("a penalty of 2 %"))
    assert findings.of(ANA) == ()


def test_the_oldest_go_first_of_terms_and_of_callers():
    findings = Findings()
    for number in range(300):
        findings.note(ANA, told(f"contract CT-2025-{number:04}"))
    findings.note(ANA, told("contract CT-2025-0299"))
    known = findings.of(ANA)
    assert len(known) == 256
    assert known[-1] == "CT-2025-0299"
    assert "CT-2025-0000" not in known
    for number in range(2_000):
        findings.note(("acme", str(number)), told("contract CT-2025-0091"))
    assert findings.of(ANA) == ()
