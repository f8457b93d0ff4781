"""Cleans adversarial captions with the reference. Run: python make_goldens.py REFERENCE OUT.json
REFERENCE is opensora/models/text_encoder/t5.py of Open-Sora, branch opensora/v1.0 or opensora/v1.2; only its class
T5Embedder is used. Needs ftfy and beautifulsoup4."""
import ast, html, json, random, re, sys, unicodedata, urllib.parse as ul, warnings
import ftfy
from bs4 import BeautifulSoup

warnings.simplefilter("ignore")
tree = ast.parse(open(sys.argv[1]).read())
cls = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "T5Embedder")
cls.body = [n for n in cls.body if isinstance(n, ast.Assign) or n.name in ("basic_clean", "clean_caption", "text_preprocessing")]
space = dict(re=re, ftfy=ftfy, html=html, ul=ul, BeautifulSoup=BeautifulSoup)
exec(compile(ast.Module([cls], []), "t5", "exec"), space)
embedder = object.__new__(space["T5Embedder"])
embedder.use_text_preprocessing = True
reference = embedder.text_preprocessing

rng = random.Random(11)
sentences = ["A red circle moves left on a blue background", "Two dogs play in the snow, slow motion", "drone view of waves crashing against the rugged cliffs along Big Sur’s garay point beach",
             "Café déjà vu: naïve façade – “quoted” text…", "The man said,hello.World is 10,000 big/small", "Привет мир, как дела", "Ὀδυσσεύς ΟΔΥΣΣΕΥΣ ΣΑΣ", "İstanbul'da IŞIK"]
pieces = [
    # URLs
    "https://example.com/foo?bar=1", "http://a", "http:/x", "https:///x", "https:%41", "www:foo", "www:///", "www.foo.com", "foo.com", "foo.co.uk", "a.ru/", "b.net/path/", "b.net/path//", "x.com@y", "x.com/@y", "x.com/a-b-@y",
    "me@mail.com", "foo.community", "foo.company/x_y", "-foo.org", "a..com", ".com", "x.italy", "x.itä", "фoo.com", "foo.comфф", "foo.gov.", "a.edu,b.org", "http://foo.net:80/x", "https:", "http://", "xhttp://a", "http://é.com", "www:%", "ftp://x.org/a.b.com/c",
    "a.com.zzz", "a.com-http://x", "q.it/é@", "x.co@", "x.com-", "x.com/-/-", "9.com", "٣.com",
    # markup
    "<b>bold</b>", "<br>", "<br/>", "</br>", "<p>one</p><p>two</p>", "a<b", "a < b", "<3", "<", "< ", "<>", "</>", "</ p>", "</1>", "<a href='x.y'>link</a>", "<a href=\"q>r\">l</a>", "<a href=\"unclosed>z</a>", "<img src=x.png>", "<person>", "<PERSON>", "<person", "<foo",
    "<foo bar", "<!-- c -->", "<!-- c", "<!--->", "<!-- a -- >x", "<!doctype html>", "<!x>", "<!", "<!>", "<?php x ?>", "<?", "<![CDATA[cd]]>", "<![CDATA[]]>", "<![CDATA[x", "<![if x]>", "<![x]>", "<![", "<![if", "<![endif]>w", "<![x", "<![x ", "free<pre>  </pre>download", "free<b>  </b>download", "<b>z</b><![x", "<![cdata[x> <![if y]>z", "<![ x]>", "<script>s<b>x</b></script>t", "<script>no end", "<style>a{}</style >u", "<rt>r</rt>v", "<textarea>  </textarea>", "<pre> \n </pre>", " <i> </i> ",
    "<template>t</template>", "<x/>", "<x / >", "<x //>", "<x a=>", "<x a= \"b>", "<x a==\"b>", "<x a='b'c=\"d\">", "<x \x00>", "<x\x00y>", "<x a\x00>", "</script>", "<br></br>z", "</x y>", "<X Y=Z>", "<x a = b / c>", "<é>", "<xé>", "<x é=1>", "<x\u00a0y>", "<script/>v", "<rp>", "</rp>", "<svg><rt><b>q</b>", "<hr>a</hr>b</hr>",
    # entities
    "&amp;", "&amp", "&quot;", "&quot", "&lt;b&gt;", "&lt", "&eacute;", "&eacute", "&Eacute;", "&foo;", "&foo", "&f", "&", "& ", "&;", "&#39;", "&#39", "&#x27;", "&#x27", "&#xzz;", "&#", "&#;", "&#12ab;", "&#128;", "&#0;", "&#55296;", "&#1114112;", "&#65534;", "&nbsp;", "&copy;", "&notit;", "&not", "&amp;amp;", "&amp;lt;b&amp;gt;", "&a.b;", "&lt-x", "&lt.", "&hellip;", "&rsquo;", "&ngt;", "&fjlig;", "&#x1f600;", "＆amp;", "&semi;", "&#59;", "&amp;#39;", "&quotamp",
    # handles, numbers, files
    "@user", "@user_1.x", "@", "@é", "@ x", "#1", "#12", "#1234", "#12345", "#1234567", "#12a", "#12345a", "123456", "12345", "a123456", "1234567é", "٣٤٥٦٧٨", "photo.jpg", ".jpg", "a.png.jpeg", "a.pngx", "x.mp4/y", "foo.webp,bar.pdf", "..png", "é.apk", "a.b.c.bmp.d", "jpg", "png images", "jpg image", "pdf imagesx", "mp4x", "xmp4",
    "10.20.30.40", "1.2.3.4.5", "1111.2.3.4", "1.2.3.45678", "٣.2.3.4", "12:30", "1:23 ", "9:41\n", "a\\nb", "\\n", "\\\\n",
    # marks
    "—", "–", "−", "‐‑‒―", "〜", "〰", "゠", "﹘", "－", "--", "---", "a-b-c", "a-b-c-d-e", "a_b_c_d_e", "_x", "x_", "“”", "‘’", "«»", "`´¨", "\"\"", "''", "\"'\"", "...", "..", " . ", " .  . ", ". .", "…", "***", "#tag", "(x)", "[y]", "{z}", "|", "\\", "/", "a/b", "~", "®™©", "½", "¿¡", "º", "§",
    " : ", "a : b", "a :b", "a: b", "é : é", ". : b", ",b", "a,b", "1,b", "1.5", "a.b.c", "a./b", ",,b", ". b", "a,é", "a/٣", ",", ";", "+", "x+", "'x'", "\"x\"", "'", "\"", ".x", ".", "-x", "x-", ":x", "x:",
    # codes and words of shops
    "jc6640", "jc6640vc", "6640vc231", "j2d1a2a", "1a1a1a", "abc123", "abcd123", "ab12", "a1b", "a1b2", "1a2", "12ab34cd", "a1b2_", "é1a2", "a1é", "abc1234567890123456", "ab٣٤٥", "IMG_1234",
    "free shipping", "worldwide shipping", "worldwide free  shipping", "shipping", "shippingx", "freeshipping", "free download", "download free", "free download free", "download", "freedownload", "click for more", "click on it", "click  on it", "clickon it", "click for ", "page 12", "page  3x", "pages 3", "page٣ ", "page ٣",
    "1920x1080", "1920 x 1080", "1.5x2.5", "1.x2", "1x2.", "1x2.é", "1x2.5é", "10х20", "10×20", "1920x1080p", "a1x2", "1x2x3", "1X2", "1.2.3x4", "10х2.é", "1×2.5é", "10×2.", "10×20.5", "10×2.5.5", "!x.com/@y!",
    # characters
    "一个猫", "日本語カタカナ", "ㇰ㈀㌀㐀䷀鿿", "한국어", "नमस्ते", "العربية", "עברית", "👩‍👩‍👧", "🏳️‍🌈", "👍🏽", "e\u0301", "q\u0323\u0307", "x\u0301\u0323", "ﬁne", "ĳ", "Ǆ", "Ｆｕｌｌ　ｗｉｄｔｈ", "ｶﾞ", "\u200b", "\u200d", "\u00ad", "\ufeff", "\u202e", "\x00", "\x07", "\x1b[31m", "\x1c", "\x1f", "\x7f", "\x85", "\xa0", "\u2028", "\u3000", "\r\n", "\r", "\n", "\t", "\x0b", "\x0c", "�",
    "ΣΑΣ", "ΑΣ.", "Σ", "ΑΣ'Α", "ẞ", "İ", "ŉ", "K", "Å", "x²", "ⅷ", "Ⅷ", "①", "٣", "a\u0301b", "_", "__",
    # mojibake
    "donâ€™t", "â€œhi â€�", "cafÃ©", "voilÃ  ok", "Ã la", "Â½", "â€”", "Ã¼ber", "Ð¿Ñ€Ð¸Ð²ÐµÑ‚", "РїСЂРёРІРµС‚", "æ—¥æœ¬", "ðŸ˜€", "â€¦", "Â°", "√©", "‚Äô", "Î±Î²", "ä½ å¥½", "Ãƒ©", "&acirc;&euro;&trade;",
    # percent encoding
    "%20", "%41", "%E2%82%AC", "%e2%82", "%ff", "%F0%9F%98%80", "%", "%%", "%zz", "%4", "%c3%28", "%ed%a0%80", "é%C3%A9", "%C3é", "a+b", "++", "%2B", "%26lt%3B", "%00", "%0A", "%3Cb%3E", "100%", "%f4%90%80%80", "%e0%80%af", "%E1%80x", "%c0%80",
]
joints = ["", " ", " ", " ", "  ", "\n", ", ", ". ", "-", "_", "/", ":", "'"]


def sentence():
    return rng.choice(sentences)


def mixed():
    words = sentence().split(" ")
    for _ in range(rng.randint(1, 5)):
        words.insert(rng.randint(0, len(words)), rng.choice(pieces))
    return "".join(w + (rng.choice(joints) if rng.random() < .3 else " ") for w in words)


def soup():
    return "".join(rng.choice(pieces) + rng.choice(joints) for _ in range(rng.randint(2, 6)))


def characters():
    alphabet = "aZé_19٣ .,:;/-'\"<>&#@%+x()\\\nΣ一“"
    return "".join(rng.choice(alphabet) for _ in range(rng.randint(1, 30)))


count = int(sys.argv[3]) if len(sys.argv) > 3 else 260
captions = ["", " ", "\n\t ", "\u3000"] + sentences + pieces + [f"a cat {p} on a mat" for p in pieces]
captions += [f() for f in (mixed, soup, characters) for _ in range(count)]
captions = [c for c in dict.fromkeys(captions) if all(unicodedata.category(x) not in ("Cs", "Cn") for x in c)]
rows, failed = [], []
for c in captions:
    try:
        rows.append([c, reference(c)])
    except Exception as e:
        failed.append([c, type(e).__name__])
if len(sys.argv) > 3:  # rows without the reference's failures, for a longer comparison
    rows.sort(key=lambda r: len(r[0]))
about = "[caption, the reference's cleaning of it]; Open-Sora T5Embedder.text_preprocessing, Python %s, ftfy 6.3.1, beautifulsoup4 4.15.0" % sys.version.split()[0]
with open(sys.argv[2], "w") as f:
    f.write('{"about": %s,\n"rejected": %s,\n"pairs": [\n' % (json.dumps(about), json.dumps([c for c, _ in failed])))
    f.write(",\n".join(json.dumps(r, ensure_ascii=True) for r in rows) + "\n]}\n")
print(len(rows), "pairs;", len(failed), "captions on which the reference fails:", sorted({e for _, e in failed}))
