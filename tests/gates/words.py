#!/usr/bin/python3
"""One term for one thing: the words in the last column of docs/glossary.md appear nowhere in the tree.

The search is for whole words, in any case and across line ends; `_` ends a word. A real use of such a word (another
program's option, a proper name) stands in words-allowed.txt.
"""
import re

from common import files, finish, line_of, read, rule, table

TOPS = ("daemon", "kernels", "clients", "config", "systemd", "docs", "tests", "bench",
        "README.md", "CHANGELOG.md", "Makefile", ".ci")
# The tables themselves.
GLOSSARY = "docs/glossary.md"
NOT_READ = (GLOSSARY, "tests/gates/words-allowed.txt")
ENDINGS_NOT_READ = (".svg", ".png", ".csv", ".wav", ".npy")


def banned():
    """(form, pattern, term) of each banned form. Between its words may stand a line end with a comment's mark."""
    for line in read(GLOSSARY).splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("| ") or len(cells) != 4 or cells[3] in ("", "not"):
            continue
        for form in cells[3].split(","):
            words = [re.escape(word) for word in form.split()]
            yield form.strip(), r"(?:[ _]|[ \t]*\n[ \t]*(?:\*|//|#|\+|-)?[ \t]*)".join(words), cells[0]


def main():
    allowed = set()
    for row in table("words-allowed.txt"):
        path, word = row.split(None, 1)
        allowed.add((path, word.strip()))
    terms = {form.lower(): term for form, _, term in banned()}
    patterns = sorted((pattern for _, pattern, _ in banned()), key=len, reverse=True)
    search = re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(patterns)})(?![A-Za-z0-9])", re.I)

    found, used = [], set()
    for path in files(*TOPS):
        if path in NOT_READ or path.endswith(ENDINGS_NOT_READ):
            continue
        text = read(path)
        for match in search.finditer(text):
            word = " ".join(re.findall(r"[A-Za-z-]+", match.group())).lower()
            if (path, word) in allowed:
                used.add((path, word))
                continue
            term = terms.get(word, f"see {GLOSSARY}")
            found.append(f"{path}:{line_of(text, match.start())}: \"{word}\"; say {term}")
    rule("no word is used for which the glossary has another", found)
    rule("each exception in words-allowed.txt is in use",
         [f"tests/gates/words-allowed.txt: {path} has no \"{word}\"" for path, word in sorted(allowed - used)])
    finish()


if __name__ == "__main__":
    main()
