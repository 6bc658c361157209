"""Which file name extension belongs to which programming language."""

# Languages with a grammar are cut at their definitions, others at blank lines.
LANGUAGES = {
    "py": "python", "pyi": "python", "pyw": "python", "js": "javascript", "mjs": "javascript", "cjs": "javascript",
    "jsx": "javascript", "ts": "typescript", "mts": "typescript", "cts": "typescript", "tsx": "tsx", "go": "go",
    "rs": "rust", "java": "java", "c": "c", "h": "cpp", "cpp": "cpp", "cc": "cpp", "cxx": "cpp", "hpp": "cpp",
    "hh": "cpp", "cs": "csharp", "rb": "ruby", "php": "php", "sh": "bash", "bash": "bash", "zsh": "bash",
    "sql": "sql", "toml": "toml", "ini": "ini", "cfg": "ini", "conf": "ini", "properties": "ini", "env": "ini",
    "kt": "kotlin", "kts": "kotlin", "swift": "swift", "scala": "scala", "lua": "lua", "pl": "perl", "pm": "perl",
    "r": "r", "jl": "julia", "dart": "dart", "ex": "elixir", "exs": "elixir", "erl": "erlang", "hs": "haskell",
    "ml": "ocaml", "clj": "clojure", "groovy": "groovy", "gradle": "groovy", "vb": "vb", "bas": "vb", "vbs": "vb",
    "pas": "pascal", "f90": "fortran", "cob": "cobol", "cbl": "cobol", "abap": "abap", "m": "matlab",
    "ps1": "powershell", "psm1": "powershell", "bat": "batch",
    "cmd": "batch", "css": "css", "scss": "css", "less": "css", "vue": "vue",
    "svelte": "svelte", "tf": "hcl", "hcl": "hcl", "proto": "proto", "graphql": "graphql", "gql": "graphql",
    "tex": "latex", "bib": "latex", "cmake": "cmake", "mk": "make", "dockerfile": "docker", "diff": "diff",
    "patch": "diff", "sol": "solidity", "zig": "zig", "nim": "nim",
}  # fmt: skip
