from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from services.ingestion.parsers.parse_code import parse_code

PYTHON = '''"""A module."""

import os

LIMIT = 3


# Why it is here.
@decorated
def first(a):
    """Does it."""
    return a


class Store:
    """Keeps things."""

    size = 1

    def put(self, key):
        %s
        return key

    async def get(self, key):
        return key
'''


def sections(text, name):
    return [block.section for block in parse_code(text, name).blocks]


def test_definitions_are_sections_with_their_comments_and_decorators():
    parsed = parse_code(PYTHON % "pass", "a.py")
    assert [block.section for block in parsed.blocks] == [(), ("first",), ("Store",)]
    assert parsed.blocks[1].text.startswith("# Why it is here.\n@decorated\ndef first(a):")
    assert all(block.kind == "code" for block in parsed.blocks)
    assert parsed.title == "a.py"


def test_a_long_class_is_cut_at_its_methods():
    text = PYTHON % "\n        ".join(["x = 1  # " + "y" * 60] * 40)
    parsed = parse_code(text, "a.py")
    assert [block.section for block in parsed.blocks[2:]] == [("Store",), ("Store", "put"), ("Store", "get")]
    assert parsed.blocks[3].text.startswith("    def put(self, key):")


@pytest.mark.parametrize(
    ("name", "text", "names"),
    [
        ("a.js", "import x from 'y';\nexport function f() {}\nconst g = () => 1;\nclass H {}\n", ["f", "g", "H"]),
        (
            "a.ts",
            "export interface I { a: string }\nexport const h = async (e: E) => e;\nenum K { A }\n",
            ["I", "h", "K"],
        ),
        ("a.tsx", "export function View() { return <b>x</b>; }\n", ["View"]),
        ("a.go", "package a\n\nfunc (s *S) Run() {}\ntype S struct{}\n", ["Run", "S"]),
        ("a.rs", "#[derive(Debug)]\npub struct P {}\nimpl P {}\nfn main() {}\n", ["P", "P", "main"]),
        ("a.java", "package a;\n/** x */\npublic class A { int f() { return 1; } }\n", ["A"]),
        ("a.c", "static char *open_file(int p) { return 0; }\nint main(void) { return 0; }\n", ["open_file", "main"]),
        ("a.cpp", "namespace n { class C {}; }\nint f() { return 1; }\n", ["n", "f"]),
        ("a.cs", "namespace N { class C { } }\n", ["N"]),
        ("a.rb", "module M\n  def f; end\nend\nclass K\nend\n", ["M", "K"]),
        ("a.php", "<?php\nfunction f() {}\nclass K {}\n", ["f", "K"]),
        ("a.sh", "#!/bin/sh\nset -e\nbuild() {\n  true\n}\n", ["build"]),
        (
            "a.sql",
            "CREATE TABLE parts (\n  id int\n);\n\ncreate or replace function f() returns int as $$ $$;\n",
            ["parts", "f"],
        ),
        ("a.toml", 'title = "x"\n[server]\nport = 1\n[client]\nport = 2\n', ["server", "client"]),
        ("a.ini", "[a]\nx=1\n\n[b]\ny=2\n", ["a", "b"]),
        ("a.proto", 'syntax = "proto3";\n\nmessage Part {\n  string id = 1;\n}\n', ["Part"]),
    ],
)
def test_definitions_of_many_languages_are_named(name, text, names):
    assert [section[-1] for section in sections(text, name) if section] == names


def test_this_project_s_own_code_is_kept_line_by_line():
    for path in sorted(Path(__file__).parents[3].glob("services/ingestion/parsers/*.py")):
        text = path.read_text()
        seen = "\n".join(block.text for block in parse_code(text, path.name).blocks)
        assert [line for line in text.split("\n") if line.strip()] == [
            line for line in seen.split("\n") if line.strip()
        ]


NAMES = ["a.py", "a.ts", "a.go", "a.c", "a.sh", "a.php", "a.sql", "a.ini", "a.lua"]
code = st.lists(
    st.sampled_from(["def f(a):", "  x1", "class C {", "}", "", "func g() {", "ñ 'é", "[s]", "/*", "*/", "# c"]),
    max_size=30,
)


@given(code, st.sampled_from(NAMES))
@example(["func g() {"], "a.go")
@example(["  x1", "ñ 'é"], "a.c")
def test_no_word_of_a_program_is_lost(lines, name):
    seen = "\n".join(block.text for block in parse_code("\n".join(lines), name).blocks)
    for line in lines:
        if any(character.isalnum() for character in line):
            assert all(word in seen for word in line.split())
