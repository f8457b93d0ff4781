"""Encodes adversarial strings with the SentencePiece library. Run: python make_goldens.py MODEL_DIR OUT.jsonl.gz
MODEL_DIR holds what make_models.py wrote. Each line: text in base64, then the ids of each model."""
import base64, gzip, json, random, sys, unicodedata
import sentencepiece as spm
from make_models import caption, names, text as corpus

folder, out = sys.argv[1], sys.argv[2]
models = ["t5", "symbols", "bytes", "suffix"]
processors = {}
for name in models:
    with gzip.open(f"{folder}/{name}.model.gz") as f:
        processors[name] = spm.SentencePieceProcessor(model_proto=f.read())

rng = random.Random(7)
white = [" ", "\t", "\n", "\r", "\x0b", "\x0c", "\x1c", "\x1f", "\x85", "\xa0", "\u1680", "\u2000", "\u2003", "\u2007", "\u2009",
         "\u200a", "\u200b", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000", "\ufeff", "\u2060", "\u180e"]
fixed = ["", "a", "▁", "▁▁", "▁a▁", " ▁ a", "a" * 4000, "ab " * 1500, "漢" * 700, "😀" * 500, "é" * 600, "e\u0301" * 600, "\x00", "a\x00b",
         "\x00" * 30, "<s>", "</s>", "<pad>", "<unk>", "<ctl>", "<sep>", "<se", "<<sep>>", "the old man", "theold", " the  old ", "ﬁne ﬁﬁ",
         "👩‍👩‍👧‍👦 family", "👍🏽 👍🏿", "🇩🇪🇫🇷🇯", "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "Ｆｕｌｌ　ｗｉｄｔｈ １２３", "ﾊﾝｶｸ ｶﾅ ﾊﾟﾋﾞ",
         "ﷺ ﷻ", "ﬁ ﬂ ﬀ ﬃ ﬄ ﬅ", "ǆ Ǆ ĳ ŉ", "① ② ⑳ ㊙ ㍻ ㎏ ½ ¾ ⅓", "²³ ₁₂ ℃ ℉ Å Ω", "İ ı ß ẞ ς Σ", "Å Å Å", "q̣̇ q̣̇ ẛ̣", "한국어 한글", "각",
         "नमस्ते दुनिया", "ไทยภาษา", "עִבְרִית שָׁלוֹם", "العَرَبِيَّة", "Ἀθῆναι", "Ελληνικά", "Привет мир", "a\u200db", "a\u200cb", "a\u00adb", "\u202eabc\u202c",
         "1,234.56%", "3D render, 4k, 8K UHD", "...!!!???", "~~ \u301c \uff5e ~", "\u2026\u22ef", "\u2018a\u2019 \u201cb\u201d", "—–‒‐-", "\ufffd\ufffd", "\U0010ffff",
         "\ue000\uf8ff", "\ufdd0", "Z̸̢̛a͔̲l̵g̶o̷", "x" + "\u0301" * 50, "<0x41><0x00>"]
raw = [b"\xff", b"\xfe\xff", b"ab\xffcd", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xf4\x90\x80\x80", b"\xc0\x80",
       b"\xe0\x80\xaf", b"\xf8\x88\x80\x80\x80", b"\x80\x80", b"a \xc3( b", b"\xe2\x28\xa1", b"cat \xe2\x82\xac \xac dog", b"\xf0\x28\x8c\xbc", b"\xc3\xa9\xc3"]


def letters(n):
    pools = [range(0x20, 0x7F), range(0x20, 0x7F), range(0x00, 0x20), range(0x7F, 0xA0), range(0xA0, 0x250), range(0x300, 0x370), range(0x370, 0x600),
             range(0x900, 0xE80), range(0x1E00, 0x2000), range(0x2000, 0x2070), range(0x2070, 0x2C00), range(0x3000, 0x3400), range(0x4E00, 0x5000),
             range(0xAC00, 0xB000), range(0xF900, 0x10000), range(0x1D400, 0x1D800), range(0x1F300, 0x1FA00), range(0xFE00, 0xFE10)]
    mix = rng.sample(pools, rng.randint(1, 4))
    return "".join(chr(rng.choice(rng.choice(mix))) for _ in range(n))


def mutated():
    s = list(rng.choice([caption(), rng.choice(names) or "x", rng.choice(corpus)]))
    for _ in range(rng.randint(1, 5)):
        s.insert(rng.randint(0, len(s)), rng.choice([rng.choice(white), rng.choice(fixed[:60]), letters(1), rng.choice(white) * rng.randint(1, 4)]))
    s = "".join(s)
    return rng.choice([s, s, s.upper(), s.title(), unicodedata.normalize("NFD", s), unicodedata.normalize("NFKD", s)])[:600]


texts = [s.encode() for s in fixed] + raw
texts += [w.encode() for w in white] + [("a" + w + "b" + w).encode() for w in white] + [(w + " " + w + "a").encode() for w in white]
texts += [chr(c).encode() for c in range(0x00, 0x100)]
texts += [caption().encode() for _ in range(400)]
texts += [mutated().encode() for _ in range(900)]
texts += [letters(rng.randint(1, 40)).encode("utf-8", "ignore") for _ in range(700)]
for _ in range(200):
    b = bytearray(mutated().encode()[:120])
    for _ in range(rng.randint(1, 4)):
        b[rng.randrange(len(b))] = rng.randrange(256)
    texts.append(bytes(b))
# Long enough for path scores beyond 100000, with many ties.
texts.append("".join(rng.choice(["\u2603", "...", "x", "..", " "]) for _ in range(15000)).encode())
texts.append(" ".join(caption() for _ in range(1500)).encode())
texts = list(dict.fromkeys(texts))
with gzip.GzipFile(out, "wb", 9, mtime=0) as f:
    for s in texts:
        row = {"text": base64.b64encode(s).decode()} | {m: processors[m].encode(s) for m in models}
        f.write((json.dumps(row, separators=(",", ":")) + "\n").encode())
print(len(texts), "texts, sentencepiece", spm.__version__)

# Optional: the built-in model, whose ids go to a file of their own. Arguments: its spiece.model, TINY_OUT.json.gz
if len(sys.argv) > 4:
    import hashlib

    with open(sys.argv[3], "rb") as f:
        proto = f.read()
    tiny = spm.SentencePieceProcessor(model_proto=proto)
    with gzip.GzipFile(sys.argv[4], "wb", 9, mtime=0) as f:
        f.write(json.dumps({"sha256": hashlib.sha256(proto).hexdigest(), "ids": [tiny.encode(s) for s in texts]}, separators=(",", ":")).encode())
