"""Prompts as the scripts of Open-Sora-Plan hand them to the tokenizer: python templates.py SOURCE12 SOURCE13.

Writes templates.json, and clean/testdata/plan.json: the captions of captions.json and open-sora.json there that the project
cleans in another way than Open-Sora.

SOURCE12 and SOURCE13 are checkouts of PKU-YuanGroup/Open-Sora-Plan at v1.2.0 and v1.3.1. Needs ftfy and beautifulsoup4. The
templates are read out of the scripts, and _clean_caption of the pipeline runs unchanged.
"""

import ast
import html
import json
import pathlib
import re
import sys
import urllib.parse as ul

import ftfy
from bs4 import BeautifulSoup

PROMPTS = ["A cat walks on the grass.", "  Two   spaces, and a URL https://example.com/x \n", "An <b>old</b> SHIP \u201cquoted\u201d & 8k!",
           "jc6640 {braces} 100%", "", "海边的日落"]


def strings(source, *names):
    """The string that each name is assigned in a script."""
    found = {}
    for node in ast.walk(ast.parse(pathlib.Path(source).read_text())):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and getattr(node.targets[0], "id", "") in names:
            found[node.targets[0].id] = node.value.value
    return [found[n] for n in names]


def cleaner(source):
    tree = ast.parse(pathlib.Path(source, "opensora/sample/pipeline_opensora.py").read_text())
    cls = next(n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.name == "OpenSoraPipeline")
    keep = [n for n in cls.body if isinstance(n, ast.FunctionDef) and n.name == "_clean_caption" or
            isinstance(n, ast.Assign) and n.targets[0].id == "bad_punct_regex"]
    cls.body, cls.bases = keep, []
    space = dict(re=re, ul=ul, html=html, ftfy=ftfy, BeautifulSoup=BeautifulSoup)
    exec(compile(ast.Module([cls], []), "pipeline", "exec"), space)
    clean = space["OpenSoraPipeline"]()._clean_caption
    return lambda text: clean(clean(text))


old, new = sys.argv[1:]
clean, same = cleaner(old), lambda text: text
scripts = {"osp12-single": (f"{old}/opensora/sample/sample_t2v.py", clean), "osp12-multi": (f"{old}/opensora/sample/sample_t2v_sp.py", clean),
           "osp13": (f"{new}/opensora/sample/../utils/sample_utils.py", same)}
out = {"_about": "[prompt, text]; ftfy " + ftfy.__version__}
for name, (script, process) in scripts.items():
    positive, negative = strings(script, "positive_prompt", "negative_prompt")
    out[name] = {"pairs": [[p, process(positive.format(p.strip()))] for p in PROMPTS], "negative": [negative, process(negative)]}
assert strings(f"{old}/opensora/sample/sample_t2v_ddp.py", "positive_prompt") == strings(scripts["osp12-multi"][0], "positive_prompt")
here = pathlib.Path(__file__).parent
(here / "templates.json").write_text(json.dumps(out, indent=1) + "\n")
folder, others = here.parent / "clean" / "testdata", []
pairs = json.loads((folder / "captions.json").read_text())["pairs"] + json.loads((folder / "open-sora.json").read_text())["pairs"]
for caption, cleaned in pairs:
    try:
        if (own := clean(caption)) != cleaned:
            others.append([caption, own])
    except AssertionError:  # broken markup, which the reference rejects
        pass
(folder / "plan.json").write_text(json.dumps({"_about": out["_about"], "pairs": others}, indent=0) + "\n")
