"""Conditions as text: "measured_motion > 0.5 and not (color = 'red' or color is null)"."""

from __future__ import annotations

import re
from typing import Any

_TOKEN = re.compile(r"""\s*(?:(?P<number>-?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)|(?P<text>'(?:[^']|'')*'|"[^"]*")|(?P<name>[A-Za-z_]\w*)|"""
                    r"""(?P<op><=|>=|!=|<>|==|=|<|>|\(|\)|,))""")
_WORDS = {"and", "or", "not", "in", "is", "null", "true", "false"}


class _Parser:
    def __init__(self, text: str) -> None:
        self.text, self.tokens, self.at = text, [], 0  # type: str, list[tuple[str, str]], int
        position = 0
        while text[position:].strip():
            m = _TOKEN.match(text, position)
            if m is None:
                raise ValueError(f"where {text!r}: {text[position:].strip()[:20]!r} is not understood")
            kind = str(m.lastgroup)
            token = m.group(kind)
            if kind == "name" and token.lower() in _WORDS:
                kind, token = "word", token.lower()
            self.tokens.append((kind, token))
            position = m.end()

    def peek(self) -> tuple[str, str]:
        return self.tokens[self.at] if self.at < len(self.tokens) else ("end", "the end")

    def accept(self, token: str) -> bool:
        kind, value = self.peek()
        if kind in ("word", "op") and value == token:
            self.at += 1
            return True
        return False

    def expect(self, token: str) -> None:
        if not self.accept(token):
            raise ValueError(f"where {self.text!r}: {token!r} is wanted, {self.peek()[1]!r} is there")

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

    def one(self) -> Any:
        import pyarrow.dataset as ds

        if self.accept("not"):
            return ~self.one()
        if self.accept("("):
            value = self.either()
            self.expect(")")
            return value
        kind, name = self.peek()
        if kind != "name":
            raise ValueError(f"where {self.text!r}: a column is wanted, {name!r} is there")
        self.at += 1
        field = ds.field(name)
        if self.accept("is"):
            absent = not self.accept("not")
            self.expect("null")
            return field.is_null() if absent else ~field.is_null()
        if self.accept("in"):
            self.expect("(")
            values = [self.literal()]
            while self.accept(","):
                values.append(self.literal())
            self.expect(")")
            return field.isin(values)
        kind, op = self.peek()
        compare = {"<": field.__lt__, "<=": field.__le__, ">": field.__gt__, ">=": field.__ge__, "=": field.__eq__, "==": field.__eq__,
                   "!=": field.__ne__, "<>": field.__ne__}.get(op) if kind == "op" else None
        if compare is None:  # a column of booleans
            return field
        self.at += 1
        return compare(self.literal())

    def literal(self) -> Any:
        kind, value = self.peek()
        self.at += 1
        if kind == "number":
            return float(value) if re.search(r"[.eE]", value) else int(value)
        if kind == "text":
            return value[1:-1].replace("''", "'") if value[0] == "'" else value[1:-1]
        if kind == "word" and value in ("true", "false"):
            return value == "true"
        raise ValueError(f"where {self.text!r}: a number or a text is wanted, {value!r} is there")


def parse(text: str) -> Any:
    """The pyarrow expression of a condition."""
    parser = _Parser(text)
    if not parser.tokens:
        raise ValueError("where: the condition is empty")
    value = parser.either()
    if parser.peek()[0] != "end":
        raise ValueError(f"where {text!r}: {parser.peek()[1]!r} is not understood there")
    return value
