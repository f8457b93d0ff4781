"""Makes testdata/golden/clip-tokens.json: python3 make_tokens.py CLIP OUT

CLIP is a checkout of github.com/openai/CLIP. Needed are ftfy and regex. Lines are made of fragments and of single characters by a hash, so
that the test makes the same ones. Characters that Unicode 14 has not assigned are left out: later versions make letters of them.
"""
import hashlib
import importlib.util
import json
import os
import sys
import unicodedata

M = 0xFFFFFFFF


def mix(x):
    x ^= x >> 16
    x = x * 0x85EBCA6B & M
    x ^= x >> 13
    x = x * 0xC2B2AE35 & M
    return x ^ x >> 16


FRAGMENTS = [
    "a photo of a cat", "A", " ", "  \t ", "\n", "\r\n", "\u00a0", "\u2003", "\u3000", "\u200b", "\ufeff", "\u2028", "\u0085", "\x1c", "\x1f", "\x00", "\x07",
    "it's", "IT'S", "don't", "we'll", "they've", "I'm", "he'd", "'re", "'", "''s", "\u2019s", "\u02bcs", "'\u017f", "'S's", "\u212a", "\u017ft",
    "\u0130stanbul", "\u03a3\u038a\u03a3\u03a5\u03a6\u039f\u03a3", "\u03a3", "a\u03a3", "\u1e9e", "\u01c5", "stra\u00dfe", "\u00e9", "e\u0301", "n\u0303\u0303", "\u0e01\u0e33", "\u0915\u094d\u0937",
    "&amp;", "&amp;amp;", "&lt;b&gt;", "&eacute;", "&notit;", "&#39;", "&#x1F600;", "&#128;", "&copy", "<b>", "&", "&NTILDE;",
    "schÃ¶n", "â€œquotedâ€\u009d", "Â£12", "\u00c3\u00a9", "ï¼\u0081", "\u201cquoted\u201d", "\u2026", "\u2014", "\uff21\uff22\uff11", "\ufb01ne", "\u0132", "\uff76\uff9e",
    "1234567890", "3.14159", "\u00bd", "\u00b2", "\u2167", "\u0967\u0968", "\u4e09\u5341", "v2.1-beta_3", "100%", "$5", "#tag", "@user", "http://a.b/c?d=e&f=g",
    "\U0001F600", "\U0001F468\u200d\U0001F469\u200d\U0001F467", "\U0001F1E9\U0001F1EA", "\u2764\ufe0f", "\U0001F3FD", "\u263a", "\U00020000", "\u3042\u308a\u304c\u3068\u3046", "\ud55c\uad6d\uc5b4", "\u4f60\u597d\u4e16\u754c",
    "\u0627\u0644\u0639\u0631\u0628\u064a\u0629", "\u05e9\u05dc\u05d5\u05dd", "\u0420\u0443\u0441\u0441\u043a\u0438\u0439", "\u202eright\u202c", "<|startoftext|>", "<|endoftext|>", "<|ENDOFTEXT|>", "<|endoftext", "</w>", "the</w>",
    "supercalifragilisticexpialidocious", "aaaaaaaaaaaaaaaaaaaaaaaa", "zzxqj", "floccinaucinihilipilification", "o'clock", "rock'n'roll", "...", "!!!", "?!", "-->", "___", "\\n", "\"", "`", "~", "\u00ad", "\ue000", "\ufffd",
]


PLANES = 0x1F000


def unassigned():
    """Returns the ranges of characters that are none, surrogates among them: first, last, first, last."""
    out = []
    for c in range(PLANES):
        if unicodedata.category(chr(c)) in ("Cn", "Cs"):
            if out and out[-1] == c - 1:
                out[-1] = c
            else:
                out += [c, c]
    return out


def line(i, fragments, left_out):
    out, n = [], 1 + mix(i ^ 0xA5A5A5A5) % 24
    for j in range(n):
        h = mix((i * 31 + j) * 0x9E3779B1 & M)
        if h % 8 == 0:  # any character of the first planes
            c = (h >> 3) % PLANES
            out.append("A" if c in left_out else chr(c))
        else:
            out.append(fragments[(h >> 3) % len(fragments)])
    return "".join(out)


if __name__ == "__main__":
    spec = importlib.util.spec_from_file_location("simple_tokenizer", os.path.join(sys.argv[1], "clip", "simple_tokenizer.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    tokenizer = module.SimpleTokenizer()

    def tokens(text):  # as clip.tokenize with truncate=True, without the padding
        ids = [49406] + tokenizer.encode(text) + [49407]
        return ids if len(ids) <= 77 else ids[:76] + [49407]

    assert unicodedata.unidata_version.startswith("14."), "run it with a Python of Unicode 14, 3.11"
    ranges = unassigned()
    left_out = {c for first, last in zip(ranges[::2], ranges[1::2]) for c in range(first, last + 1)}
    count, digest, sums = 10000, hashlib.sha256(), []
    for i in range(count):
        for t in tokens(line(i, FRAGMENTS, left_out)):
            digest.update(t.to_bytes(4, "little"))
        if i % 100 == 99:
            sums.append(digest.hexdigest()[:16])
    hard = [{"Text": f, "IDs": tokens(f)} for f in FRAGMENTS]
    json.dump({"_about": "made by stages/clip/testdata/make_tokens.py", "tokens": {"Fragments": FRAGMENTS, "LeftOut": ranges, "Lines": count,
              "SHA256": sums, "Hard": hard}}, open(sys.argv[2], "w"))
