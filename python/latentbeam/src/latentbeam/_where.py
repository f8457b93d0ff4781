"""Conditions as text: "motion > 0.5 and not (color == 'red' or color is null)".

The words are those that `latentbeam export --where` and `select` take (comparisons, and, or, not, in, contains, startsWith,
endsWith), and SQL's `=`, `<>` and `is null`. As there, `measured_` may be left out, and a row without a value that the
condition asks for is not chosen, unless the condition says `is null` of it.
"""

from __future__ import annotations

import re
from typing import Any, Sequence

from ._program import Error

_TOKEN = re.compile(r"""\s*(?:(?P<number>-?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)|(?P<text>'(?:[^'\\]|''|\\.)*'|"(?:[^"\\]|\\.)*")|"""
                    r"""(?P<name>[A-Za-z_]\w*)|(?P<op><=|>=|!=|<>|==|&&|\|\||=|<|>|!|\(|\)|\[|\]|,))""")
_WORDS = {"and", "or", "not", "in", "is", "null", "nil", "true", "false"}
_ALSO = {"&&": "and", "||": "or", "!": "not", "nil": "null"}
_CALLS = {"contains": "match_substring", "startsWith": "starts_with", "endsWith": "ends_with"}


class _Parser:
    def __init__(self, text: str, columns: Sequence[str]) -> None:
        self.text, self.columns = text, columns
        self.tokens: list[tuple[str, str]] = []
        self.at = 0
        self.asked: dict[str, bool] = {}  # columns; true: the condition says what null means
        position = 0
        while text[position:].strip():
            m = _TOKEN.match(text, position)
            if m is None:
                raise self.wrong(f"{text[position:].strip()[:20]!r} is not understood")
            kind = str(m.lastgroup)
            token = m.group(kind)
            if kind == "name" and token.lower() in _WORDS:
                kind, token = "word", token.lower()
            if token in _ALSO and kind != "text":
                kind, token = "word", _ALSO[token]
            self.tokens.append((kind, token))
            position = m.end()

    def wrong(self, why: str) -> Error:
        return Error(f"where {self.text!r}: {why}; write it as in: aesthetic_quality > 5.5 and color == 'red'", 2)

    def peek(self) -> tuple[str, str]:
        return self.tokens[self.at] if self.at < len(self.tokens) else ("end", "the end")

    def accept(self, *tokens: str) -> bool:
        kind, value = self.peek()
        if kind in ("word", "op") and value in tokens:
            self.at += 1
            return True
        return False

    def expect(self, *tokens: str) -> None:
        if not self.accept(*tokens):
            raise self.wrong(f"{' or '.join(tokens)} is wanted, {self.peek()[1]!r} is there")

    def either(self) -> Any:
        value = self.both()
        while self.accept("or"):
            value = value | self.both()
        return value

    def both(self) -> Any:
        value = self.one()
        while self.accept("and"):
            value = value & self.one()
        return value

    def column(self) -> tuple[str, Any]:
        import pyarrow.dataset as ds

        kind, name = self.peek()
        if kind != "name":
            raise self.wrong(f"a column is wanted, {name!r} is there")
        self.at += 1
        if name not in self.columns:
            if "measured_" + name not in self.columns:
                there = sorted(c[len("measured_"):] if c.startswith("measured_") else c for c in self.columns)
                raise self.wrong(f"there is no column {name}, only {', '.join(there)}")
            name = "measured_" + name
        self.asked.setdefault(name, False)
        return name, ds.field(name)

    def one(self) -> Any:
        import pyarrow.compute as pc

        if self.accept("not"):
            return ~self.one()
        if self.accept("("):
            value = self.either()
            self.expect(")")
            return value
        name, field = self.column()
        if self.accept("is"):
            absent = not self.accept("not")
            self.expect("null")
            self.asked[name] = True
            return field.is_null() if absent else ~field.is_null()
        outside = self.accept("not")
        if outside or self.peek() == ("word", "in"):
            self.expect("in")
            self.expect("(", "[")
            values = [self.literal()]
            while self.accept(","):
                values.append(self.literal())
            self.expect(")", "]")
            return ~field.isin(values) if outside else field.isin(values)
        kind, op = self.peek()
        if kind == "name" and op in _CALLS:
            self.at += 1
            return getattr(pc, _CALLS[op])(field, str(self.literal()))
        compare = {"<": field.__lt__, "<=": field.__le__, ">": field.__gt__, ">=": field.__ge__, "=": field.__eq__, "==": field.__eq__,
                   "!=": field.__ne__, "<>": field.__ne__}.get(op) if kind == "op" else None
        if compare is None:  # a column of booleans
            return field
        self.at += 1
        if self.accept("null"):
            if op not in ("=", "==", "!=", "<>"):
                raise self.wrong(f"null is not {op} anything")
            self.asked[name] = True
            return field.is_null() if op in ("=", "==") else ~field.is_null()
        return compare(self.literal())

    def literal(self) -> Any:
        kind, value = self.peek()
        self.at += 1
        if kind == "number":
            return float(value) if re.search(r"[.eE]", value) else int(value)
        if kind == "text":
            inner = value[1:-1].replace("''", "'") if value[0] == "'" else value[1:-1]
            return re.sub(r"\\(.)", r"\1", inner)
        if kind == "word" and value in ("true", "false"):
            return value == "true"
        raise self.wrong(f"a number or a text is wanted, {value!r} is there")


def parse(text: str, columns: Sequence[str]) -> Any:
    """The pyarrow expression of a condition over a table with these columns."""
    import pyarrow.dataset as ds

    parser = _Parser(text, columns)
    if not parser.tokens:
        raise parser.wrong("it is empty")
    value = parser.either()
    if parser.peek()[0] != "end":
        raise parser.wrong(f"{parser.peek()[1]!r} is not understood there")
    for name, says in parser.asked.items():
        if not says:
            value = value & ~ds.field(name).is_null()
    return value
