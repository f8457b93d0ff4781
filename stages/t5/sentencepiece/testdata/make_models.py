"""Trains the three small SentencePiece models of this folder. Run: python make_models.py OUT_DIR"""
import gzip, io, os, random, sys, unicodedata
import sentencepiece as spm


rng = random.Random(2)
spm.set_random_generator_seed(1)
assigned = [c for c in range(0xA0, 0x20000) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]
names = [unicodedata.name(chr(c), "").lower().replace("-", " ") for c in assigned]
words = sorted({w for n in names for w in n.split() if w.isalpha()})
subjects = "cat dog bird horse river mountain city street forest ocean robot child woman man dancer chef painter car train boat".split()
scenes = ["at sunset", "in the rain", "under neon lights", "on a quiet beach", "through heavy snow", "in slow motion",
          "seen from a drone", "in a cozy kitchen", "near the old harbor", "above the clouds"]
verbs = "walks runs jumps sleeps waits turns smiles glows drifts spins falls rises".split()


def caption():
    s = f"{rng.choice(['A', 'The', 'One', 'Two', 'a'])} {rng.choice(['red','blue','tiny','huge','old','golden','foggy'])} "
    s += f"{rng.choice(subjects)} {rng.choice(verbs)} {rng.choice(scenes)}"
    if rng.random() < .3:
        s += f", {rng.randint(1, 4000)} {rng.choice(['fps', 'mm lens', 'people', 'years old', '%'])}"
    if rng.random() < .3:
        s += f"; it's {rng.choice(words)}-{rng.choice(words)} ({rng.choice(words)})"
    return s + rng.choice([".", "!", "?", "", "..."])


def lines():
    for n in names:
        if n and rng.random() < .3:
            yield n
    for _ in range(12000):
        yield caption()
    for _ in range(6000):  # letters of many scripts, so that the vocabulary holds more than Latin
        block = rng.choice([range(0xC0, 0x180), range(0x391, 0x3CA), range(0x410, 0x450), range(0x5D0, 0x5EB),
                            range(0x627, 0x64B), range(0x905, 0x93A), range(0x3041, 0x3097), range(0x4E00, 0x4F00),
                            range(0xAC00, 0xAD00), range(0x1F600, 0x1F650)])
        yield " ".join("".join(chr(rng.choice(block)) for _ in range(rng.randint(1, 7))) for _ in range(4))


text = list(lines())
common = dict(model_type="unigram", num_threads=1, minloglevel=2)


def train(out, name, **options):
    model = io.BytesIO()
    spm.SentencePieceTrainer.train(sentence_iterator=iter(text), model_writer=model, **common, **options)
    with open(os.path.join(out, name + ".model.gz"), "wb") as f:
        f.write(gzip.compress(model.getvalue(), 9, mtime=0))


if __name__ == "__main__":
    # t5: the ids of T5 (pad 0, end 1, unknown 2, no begin), its normalisation.
    train(sys.argv[1], "t5", vocab_size=8000, character_coverage=0.9995, normalization_rule_name="nmt_nfkc", pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    # symbols: user-defined symbols, one inside another and one that normalisation would change; a control symbol.
    train(sys.argv[1], "symbols", vocab_size=2000, character_coverage=0.995, normalization_rule_name="nmt_nfkc_cf",
          user_defined_symbols=["<sep>", "<se", "ﬁn", "the old", "é", "ol"], control_symbols=["<ctl>"], pad_id=3)
    # bytes: byte fallback, identity normalisation, spaces kept, no dummy prefix.
    train(sys.argv[1], "bytes", vocab_size=1100, character_coverage=0.98, normalization_rule_name="identity", byte_fallback=True,
          remove_extra_whitespaces=False, add_dummy_prefix=False, pad_id=3)
    # suffix: whitespace as a suffix of the word, no normalisation.
    train(sys.argv[1], "suffix", vocab_size=1100, character_coverage=0.98, normalization_rule_name="identity", treat_whitespace_as_suffix=True)
