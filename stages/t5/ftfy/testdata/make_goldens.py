"""Repairs adversarial strings with ftfy. Run: python make_goldens.py OUT.jsonl.gz"""
import gzip, html.entities, json, random, sys, unicodedata
import ftfy

rng = random.Random(5)
encodings = ["latin-1", "sloppy-windows-1252", "sloppy-windows-1251", "sloppy-windows-1250", "sloppy-windows-1253", "sloppy-windows-1254",
             "sloppy-windows-1257", "iso-8859-2", "macroman", "cp437", "cp1252", "cp850", "sloppy-windows-1255"]
samples = ["don’t stop — “now” …", "Café déjà vu à la mode", "naïve façade, coöperate, Ångström", "às àquele quel à", "¿Qué? ¡Sí! ½ £5 €6 ¥7 ©®™",
           "Привет мир, как дела", "Ελληνικά γράμματα", "日本語のテキスト", "한국어 텍스트", "العربية نص", "हिन्दी पाठ", "ไทย", "שלום עולם", "👩‍👩‍👧 😀🎉 👍🏽", "žluťoučký kůň",
           "İstanbul ışık ğüşöç", "ķīļē ģāj", "“quoted”", "a • b · c", "10³ m² 5° 6µ", "ﬁne ﬂow ŉ ǆ", "—", "☃ ✓ ★", "x × y ÷ z", "\u200bzero\u200d", "a\u00a0b", "naïve ☃"]
marks = list("âÂÃ€™œžŸÎÐØÙà²µ¹‚Äóä√±≈°ВГРСвЂўΒΓΞΟβΆāї¦¤¨¬¯¸ƒˆ˜†‡‰◊ªº§¶¢£¥«»‘’“”•®©¡¿½×÷│┌═█░ŒœÒöøü ßñÀÑłŁ.,?!aZ…–—\u00a0\u00ad\u0081\u008d\u0090\u009d\u0085\ufffd\x1a\n\t\r?s ")


def mojibake(s, depth=1):
    for _ in range(depth):
        e = rng.choice(encodings)
        try:
            s = s.encode("utf-8").decode(e)
        except UnicodeDecodeError:
            s = s.encode("utf-8").decode(e, "replace")
    return s


def damaged(s):
    return "".join(" " if c == "\u00a0" and rng.random() < .8 else "\ufffd" if ord(c) > 127 and rng.random() < .05 else "?" if ord(c) > 127 and rng.random() < .03 else c for c in s)


entity_names = sorted(html.entities.html5)
def entity():
    n = rng.choice(entity_names)
    return rng.choice(["&" + n, "&" + n.rstrip(";"), "&" + n.upper(), "&" + n.lower(), f"&#{rng.choice([0, 9, 13, 38, 59, 65, 128, 133, 146, 233, 8217, 55296, 65534, 128512, 1114112, 99999999])};",
                       f"&#x{rng.choice([0, 38, 0x92, 0xe9, 0x2019, 0x1f600, 0xd800, 0xfdd0]):x};", "&#39", "&#x27", "&amp;amp;", "&amp;eacute;", "&amp;#39;", "&zz;", "&;", "&#;", "&#x;", "&#xg;"])


texts = ["", " ", "\n", "a", "\x00", "\x1b[31mred\x1b[0m", "\x1b[1;2", "\x1b[;;m", "\x1b", "\x1b[", "\x1b[٣m", "a\r\nb\rc\u2028d\u2029e\x85f", "\r\r\n\n", "\ufeffa\ufeff", "\u206a\ufff9\ufffc\x7f", "ＦＵＬＬ　ｗｉｄｔｈ！～￥￣ｶﾞｷﾞ ﾊﾟ",
         "ﬀﬁﬂﬃﬄﬅﬆ Ĳĳ ŉ Ǳǲǳ Ǆǅǆ Ǉǈǉ Ǌǋǌ", "‘a’ ‚b‛ “c” „d‟ ʼe", "e\u0301 a\u030a\u0323 q\u0323\u0307 q\u0307\u0323", "각 가\u11a8", "x" + "\u0301" * 31, "e" + "\u0323\u0301" * 40 + "é", "é" + "\u0301" * 30,
         "\u0344\u0958 \u2126 \u212b \U0001d15e", "<b>&amp;</b>\n&amp;", "&amp;\n<b>&amp;\n&amp;", "&lt;&amp;lt;", "a &lt b", "l&#39;&eacute;t&EACUTE; &NTILDE; &nTILDE; &SZLIG; &NAPOS; &FFLIG; &semi; &SEMI; &AMP; &COPY; &TRADE;",
         "Ã la mode", "Ã s vezes", "Ã quele", "Ã  double", "voilÃ le travail", "Ãƒ", "Â", "Â ", "a Â b", "Ã ", "Ã", "ï»¿bom", "\u00ed\u00a0\u00bd\u00ed\u00b8\u0080", "\u00c0\u0080", "\u00ed\u00a0\u00bd", "í\xa0\x80í°\x80 x",
         "â€œ like this â€�", "â€™", "â€", "Ð\u0092", "РџСЂРёРІРµС‚", "ГўВЂВ™s", "ГўВЂВ™ ", "ГўВЂВ", "Î•Î»Î»Î·Î½", "ØªØ­Ø¨", "Ø§Ù„Ø¹", "à²µ", "√±x", "≈°", "‚Äî", "‚âà", "Œ", "œ", "œu", "œ.", "Œ é", "É°", "×²", "β€™", "ā€ž", "вЂ™",
         "├▒", "├⌐", "caf├⌐", "ΓÇô", "ΓÇÖ", "naïve café", "Ñandú", "Łódź", "L’été", "¯\\_(ツ)_/¯", "(ﾉ´･ω･)ﾉ", "ಠ_ಠ", "ÒÖ═", "═Ò", "Ø°", "fooâ bar", "sÃ³ mais Ã© bom", "IÃ±tÃ«rnÃ¢tiÃ´nÃ lizÃ¦tiÃ¸n", "Mérida â€” ok", "Jürgen â€“ “x”"]
texts += [s for s in samples]
for s in samples:
    for e in encodings:
        try:
            m = s.encode("utf-8").decode(e)
        except UnicodeDecodeError:
            continue
        texts += [m, damaged(m), m.lower(), "Ok “x” " + m + " z’"]
texts += [mojibake(rng.choice(samples), rng.choice([1, 1, 2, 2, 3])) for _ in range(300)]
texts += [damaged(mojibake(rng.choice(samples), rng.choice([1, 2]))) for _ in range(300)]
texts += ["".join(rng.choice(marks) for _ in range(rng.randint(1, 5))) for _ in range(1500)]
texts += ["".join(rng.choice(marks) for _ in range(rng.randint(5, 25))) for _ in range(400)]
texts += [" ".join(rng.choice([entity(), entity(), rng.choice(samples)[:8], "<", "\n"]) for _ in range(rng.randint(1, 6))) for _ in range(500)]
texts += ["".join(chr(rng.choice([rng.randrange(0x20, 0x7f), rng.randrange(0x80, 0x250), rng.randrange(0x300, 0x460), rng.randrange(0x2000, 0x2600), rng.randrange(0xf900, 0xffff)])) for _ in range(rng.randint(1, 20))) for _ in range(500)]
texts += ["".join(rng.choice([rng.choice(samples), mojibake(rng.choice(samples)), rng.choice(["\n", " ", "x", "<br>"])]) for _ in range(5)) for _ in range(300)]
texts += [" ".join("&" + f(n.rstrip(";")) + ";" for n in entity_names) for f in (str, str.upper, str.lower)]
texts += [" ".join("&" + n.rstrip(";") for n in entity_names)]
texts = [t for t in dict.fromkeys(texts) if not any(0xd800 <= ord(c) < 0xe000 for c in t) and all(unicodedata.category(c) != "Cn" or ord(c) in (0xfdd0,) for c in t)]
with gzip.GzipFile(sys.argv[1], "wb", 9, mtime=0) as f:
    for t in texts:
        f.write((json.dumps([t, ftfy.fix_text(t), html.unescape(t)], ensure_ascii=False) + "\n").encode())
print(len(texts), sum(t != ftfy.fix_text(t) for t in texts))
