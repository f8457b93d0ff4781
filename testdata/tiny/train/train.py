"""Trains `tiny` on a CPU: tokenizer, VAE, latents cache, then T5 encoder and STDiT together.

    python train.py tokenizer vae cache decoder diffusion text --work WORKDIR [--vae-minutes 14 --diffusion-minutes 60 ...]

Every stage reads and writes WORKDIR (checkpoints, cache); export.py makes the published layout from
it. Learning rates follow the clock, so a slower machine takes fewer steps, not longer.
"""

import argparse
import copy
import itertools
import math
import os
import pathlib
import string
import time

import torch
from torch.nn import functional as F

import diffusion
import model
import world


class Budget:
    """Learning-rate schedule by wall clock: linear warm-up over steps, then a half cosine to 1 %."""

    def __init__(self, optimizers, minutes, warmup):
        self.groups = [group for optimizer in optimizers for group in optimizer.param_groups]
        self.peaks = [group["lr"] for group in self.groups]
        self.seconds, self.warmup = minutes * 60, warmup
        self.start, self.step, self.saved = time.time(), 0, time.time()

    def spent(self):
        return min(1.0, (time.time() - self.start) / self.seconds)

    def tick(self):
        """Sets the rate for the next step; false when the time is used up."""
        self.step += 1
        part = (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * self.spent()))) * min(1.0, self.step / self.warmup)
        for group, peak in zip(self.groups, self.peaks):
            group["lr"] = peak * part
        return self.spent() < 1

    def due(self, every=150):
        if time.time() - self.saved < every:
            return False
        self.saved = time.time()
        return True


class Average:
    """Exponential moving average of a module's parameters, with a short memory at the start."""

    def __init__(self, module, decay):
        self.live, self.shadow, self.decay, self.steps = module, copy.deepcopy(module).eval(), decay, 0

    @torch.no_grad()
    def update(self):
        self.steps += 1
        keep = min(self.decay, self.steps / (self.steps + 10))
        pairs = list(zip(self.shadow.parameters(), self.live.parameters()))
        torch._foreach_lerp_([s for s, _ in pairs], [p.detach() for _, p in pairs], 1 - keep)


def save(path, state):
    torch.save(state, path + ".part")
    os.replace(path + ".part", path)


# ------------------------------------------------------------------------------------ tokenizer

EXTRA_IDS = 100  # T5 keeps 100 sentinel ids behind the pieces


def train_tokenizer(work):
    """SentencePiece Unigram as T5's: nmt_nfkc, pad 0, end 1, unknown 2, no byte fallback."""
    import sentencepiece
    rng = world.seeded("tokenizer")
    every = pathlib.Path(__file__).with_name("words.txt").read_text().split()
    with open(f"{work}/text.txt", "w") as out:
        for _ in range(12000):
            combination = rng.choice(world.COMBINATIONS)
            wordings = world.TRAIN_WORDINGS + world.HELD_OUT_WORDINGS
            background = rng.choice([None, *world.BACKGROUNDS])
            out.write(world.clean(world.caption(rng, *combination, background, wordings, 0.3)) + "\n")
        for _ in range(12000):
            words = [rng.choice(every) + rng.choice(["", "", "", "s", "ed", "ing", "ly", ","]) for _ in range(9)]
            out.write(" ".join(words) + rng.choice([".", "!", "?", ""]) + "\n")
        for _ in range(3000):
            out.write("".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(6)) + "\n")
        for _ in range(40):
            out.write(" ".join(string.printable.strip()) + "\n" + " ".join(str(rng.randrange(2100)) for _ in range(9)) + "\n")
    sentencepiece.SentencePieceTrainer.train(
        input=f"{work}/text.txt", model_prefix=f"{work}/spiece", model_type="unigram", vocab_size=1436 - EXTRA_IDS,
        normalization_rule_name="nmt_nfkc", character_coverage=1.0, pad_id=0, eos_id=1, unk_id=2, bos_id=-1,
        byte_fallback=False, num_threads=1, minloglevel=1)


class Tokenizer:
    """Token ids of cleaned text, closed by the end token, at most length of them."""

    def __init__(self, path):
        import sentencepiece
        self.pieces = sentencepiece.SentencePieceProcessor(model_file=path)
        self.vocabulary = self.pieces.get_piece_size() + EXTRA_IDS

    def __call__(self, text, length=model.STDIT_CONFIG["model_max_length"]):
        return self.pieces.encode(world.clean(text))[: length - 1] + [1]


# ------------------------------------------------------------------------------------------ VAE

VAE_CONFIG = dict(
    in_channels=3, out_channels=3, down_block_types=["DownEncoderBlock2D"] * 4,
    up_block_types=["UpDecoderBlock2D"] * 4, block_out_channels=[16, 24, 48, 64], layers_per_block=1,
    latent_channels=4, norm_num_groups=8, act_fn="silu", sample_size=64, scaling_factor=0.18215,
)


def new_vae():
    from diffusers import AutoencoderKL
    return AutoencoderKL(**VAE_CONFIG)


def train_vae(work, minutes, peak, batch=32):
    """Single frames; L1 + L2 + a KL term that keeps the latents smooth. Goes on from an earlier checkpoint.

    Pixels of the shape weigh 5 times as much as the background, which would else hide their colour.
    """
    torch.manual_seed(1)
    vae = new_vae().to(memory_format=torch.channels_last).train()
    resumed = os.path.exists(f"{work}/vae.pt")
    if resumed:
        vae.load_state_dict(torch.load(f"{work}/vae.pt"))
    rng = world.seeded("vae", time.time() if resumed else 0)

    def passes(x):
        posterior = vae.encode(x).latent_dist
        return vae.decode(posterior.sample()).sample, posterior.mean, posterior.logvar

    passes = torch.compile(passes)
    optimizer = torch.optim.AdamW(vae.parameters(), lr=peak, betas=(0.9, 0.95), weight_decay=1e-4)
    budget, average = Budget([optimizer], minutes, 50 if resumed else 100), Average(vae, 0.995)
    while budget.tick():
        x = torch.cat([world.still_image(rng) for _ in range(batch)]).contiguous(memory_format=torch.channels_last)
        with torch.autocast("cpu", torch.bfloat16):
            y, mean, logvar = passes(x)
        error, mean, logvar = y.float() - x, mean.float(), logvar.float()
        kl = 0.5 * (mean.square() + logvar.exp() - 1 - logvar).mean()
        weight = 1 + 4 * ((x - x[:, :, :1, :1]).abs().amax(1, keepdim=True) > 0.02)
        l1, l2 = (weight * error.abs()).mean(), (weight * error.square()).mean()
        (l1 + 2 * l2 + 5e-4 * kl).backward()
        torch.nn.utils.clip_grad_norm_(vae.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        average.update()
        if budget.step % 50 == 0:
            print(f"vae step {budget.step} spent {budget.spent():.3f} l1 {l1:.4f} l2 {l2:.5f} kl {kl:.3f}", flush=True)
        if budget.due():
            save(f"{work}/vae.pt", average.shadow.state_dict())
    save(f"{work}/vae.pt", average.shadow.state_dict())


def train_decoder(work, minutes, batch=32):
    """Sharpens the decoder alone; the encoder and so the latents stay as they are. The latents get some noise
    on top of the posterior's, because the denoiser's will not be perfect either."""
    torch.manual_seed(3)
    vae = new_vae().to(memory_format=torch.channels_last).train()
    vae.load_state_dict(torch.load(f"{work}/vae.pt"))
    std = torch.load(f"{work}/cache.pt")["std"]
    rng, learned = world.seeded("decoder", time.time()), [*vae.post_quant_conv.parameters(), *vae.decoder.parameters()]
    optimizer = torch.optim.AdamW(learned, lr=1.5e-3, betas=(0.9, 0.95), weight_decay=1e-4)
    budget, average = Budget([optimizer], minutes, 50), Average(vae, 0.995)
    while budget.tick():
        x = torch.cat([world.still_image(rng, odd=0.02) for _ in range(batch)])
        x = x.contiguous(memory_format=torch.channels_last)
        with torch.autocast("cpu", torch.bfloat16):
            with torch.no_grad():
                z = vae.encode(x).latent_dist.mean.float()
                z = z + 0.08 * std[:, None, None] * torch.randn_like(z)
            y = vae.decode(z).sample
        error = y.float() - x
        weight = 1 + 4 * ((x - x[:, :, :1, :1]).abs().amax(1, keepdim=True) > 0.02)
        l1, l2 = (weight * error.abs()).mean(), (weight * error.square()).mean()
        (l1 + 2 * l2).backward()
        torch.nn.utils.clip_grad_norm_(learned, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        average.update()
        if budget.step % 50 == 0:
            print(f"decoder step {budget.step} spent {budget.spent():.3f} l1 {l1:.4f} l2 {l2:.5f}", flush=True)
        if budget.due():
            save(f"{work}/decoder.pt", average.shadow.state_dict())
    save(f"{work}/decoder.pt", average.shadow.state_dict())


# ------------------------------------------------------------------------------- cached latents


@torch.no_grad()
def build_cache(work, clips=32, stills=128):
    """Latents of moving clips for each colour, shape, background: "left" and "up" are encoded, the other two
    directions are the same clips backwards; "still" repeats one frame. Also the latents' mean and deviation."""
    vae = new_vae().to(memory_format=torch.channels_last).eval()
    vae.load_state_dict(torch.load(f"{work}/vae.pt"))
    rng, cache = world.seeded("cache"), {}
    for color, shape, background in itertools.product(world.COLORS, world.SHAPES, world.BACKGROUNDS):
        for motion, count, frames in (("left", clips, world.FRAMES), ("up", clips, world.FRAMES), ("still", stills, 1)):
            x = torch.cat([world.clip(rng, color, shape, motion, background, frames) for _ in range(count)])
            parts = []
            for part in x.split(256):
                with torch.autocast("cpu", torch.bfloat16):
                    parts.append(vae.encode(part.contiguous(memory_format=torch.channels_last)).latent_dist.mean.half())
            cache[color, shape, motion, background] = torch.cat(parts).contiguous().view(count, frames, 4, 8, 8)
        print("cached", color, shape, background, flush=True)
    moving = torch.cat([v for k, v in cache.items() if k[2] != "still"]).float().transpose(1, 2)
    save(f"{work}/cache.pt", dict(
        clips=cache, mean=moving.mean((0, 2, 3, 4)), std=moving.std((0, 2, 3, 4))))


class Latents:
    """Draws normalised clips of training combinations from the cache."""

    BACKWARDS = {"right": "left", "down": "up"}

    def __init__(self, work):
        state = torch.load(f"{work}/cache.pt")
        self.clips, self.mean, self.std = state["clips"], state["mean"], state["std"]

    def draw(self, rng, combination, background):
        """(4, 16, 8, 8), mean 0 and deviation 1 over the whole cache."""
        color, shape, motion = combination
        found = self.clips[color, shape, self.BACKWARDS.get(motion, motion), background]
        z = found[rng.randrange(len(found))].float()
        z = z.flip(0) if motion in self.BACKWARDS else z.expand(world.FRAMES, -1, -1, -1)
        return ((z - self.mean[:, None, None]) / self.std[:, None, None]).transpose(0, 1)


# ---------------------------------------------------------------------------- T5 encoder, STDiT

TEXT = 32  # captions are padded to this many tokens in training


def captions(rng, tokenizer, keys):
    """Token ids (B, TEXT), their mask, and which of the captions of (combination, background) pairs name colour and
    shape: 8 of 10 do. The background is named in 4 of 10. A third names both sides of the way."""
    ids, named = torch.zeros(len(keys), TEXT, dtype=torch.long), torch.rand(len(keys)) < 0.8
    for row, name, (combination, background) in zip(ids, named, keys):
        said = background if rng.random() < 0.4 else None
        wordings = world.TRAIN_WORDINGS if name else world.UNNAMED_WORDINGS
        text = world.caption(rng, *combination, said, wordings, filler=0.3, ordered=rng.random() < 0.35)
        tokens = tokenizer(text, TEXT)
        row[: len(tokens)] = torch.tensor(tokens)
    return ids, ids != 0, named


def shorter(rng, x):
    """Another number of frames, for the few batches that are not 16 frames: (B, 4, T, 8, 8)."""
    frames = rng.choice([1, 1, 4, 8, 12])
    start = rng.randrange(world.FRAMES - frames + 1)
    return x[:, :, start : start + frames]


class Balance:
    """Weights that make every range of timesteps count alike: one over the running loss of its range."""

    def __init__(self, bins=25, floor=2e-5):
        self.mean, self.seen = torch.ones(bins), [0] * bins
        self.width, self.floor = diffusion.STEPS // bins, floor

    def __call__(self, loss, t):
        rows = t // self.width
        for row, value in zip(rows.tolist(), loss.tolist()):
            self.seen[row] += 1
            self.mean[row] += max(0.02, 1 / self.seen[row]) * (value - self.mean[row])
        return (loss / self.mean[rows].clamp(min=self.floor)).mean()


class Helpers(torch.nn.Module):
    """Read-outs that exist in training only: clean latents, the way travelled so far, colour and shape from every
    token after every block; colour, shape and motion from the text. At high noise the denoiser's own loss hardly sees
    what the text decides, and without the read-outs the direction of motion is not learned within hours."""

    def __init__(self):
        super().__init__()
        each = lambda out: torch.nn.ModuleList(
            torch.nn.Linear(model.STDIT_CONFIG["hidden_size"], out) for _ in range(model.STDIT_CONFIG["depth"]))
        self.clean, self.way, self.look = each(16), each(3), each(len(world.COLORS) + len(world.SHAPES))
        self.said = torch.nn.Linear(model.T5_CONFIG["d_model"], len(world.COLORS) + len(world.SHAPES) + len(world.MOTIONS))

    def forward(self, after, x0, y, keep, keys, named, told):
        batch, channels, frames, rows, columns = x0.shape
        want = x0.view(batch, channels, frames, rows // 2, 2, columns // 2, 2).permute(0, 2, 3, 5, 4, 6, 1).reshape(batch, -1, 16)
        after = [F.layer_norm(h, h.shape[-1:]) for h in after]
        loss = sum(F.mse_loss(head(h).float(), want) for head, h in zip(self.clean, after))
        if frames == world.FRAMES:
            time = torch.linspace(-1, 1, frames).repeat_interleave(rows * columns // 4)[None, :, None]
            steps = torch.tensor([(*world.STEP[k[0][2]], 1) for k in keys])[:, None].float()
            wrong = sum((head(h).float() - time * steps).square().mean((1, 2)) for head, h in zip(self.way, after))
            loss = loss + (wrong * told).mean()
        mean = (y * keep[..., None]).sum(1) / keep.sum(1, keepdim=True)
        options = (list(world.COLORS), world.SHAPES, world.MOTIONS)
        labels = [torch.tensor([names.index(k[0][part]) for k in keys]) for part, names in enumerate(options)]
        scores = self.said(mean).float().split([len(names) for names in options], 1)
        for score, label, sure, weight in zip(scores, labels, (named, named, named | True), (0.1, 0.1, 0.5)):
            loss = loss + weight * F.cross_entropy(score[sure], label[sure])
        for head, h in zip(self.look, after):
            for score, label in zip(head(h).float().split([len(names) for names in options[:2]], 2), labels):
                wrong = F.cross_entropy(score.flatten(0, 1), label.repeat_interleave(h.shape[1]), reduction="none")
                loss = loss + 0.15 * (wrong.view(batch, -1).mean(1) * (told & named)).mean()
        return 2 * loss


def new_optimizers(both, peak):
    """Muon for the matrices inside the blocks, AdamW for everything else."""
    kinds = ("SelfAttention.", "DenseReluDense.", "blocks.")
    inside = lambda name, p: p.dim() == 2 and name.endswith(".weight") and any(k in name for k in kinds)
    matrices = [p for n, p in both.named_parameters() if inside(n, p)]
    others = [p for n, p in both.named_parameters() if not inside(n, p)]
    muon = torch.optim.Muon(matrices, lr=3 * peak, weight_decay=0.01, adjust_lr_fn="match_rms_adamw")
    return [torch.optim.AdamW(others, lr=peak, betas=(0.9, 0.95), weight_decay=0.01, fused=True), muon]


def ordered_ids(rng, tokenizer, batch, hard):
    """Token ids of phrases that name both sides of the way, with the direction's number; hard (0 to 1) is the chance of
    words around them. Colour and shape stay unsaid."""
    ids, directions = torch.zeros(batch, TEXT, dtype=torch.long), torch.randint(4, (batch,))
    for row, direction in zip(ids, directions.tolist()):
        motion = world.MOTIONS[direction]
        text = rng.choice(world.UNNAMED_WORDINGS).format(**dict(zip(("moves", "moving"), world.phrase(rng, motion, True))))
        if rng.random() < hard:
            text = rng.choice(world.FILLERS) + " " + text
        if rng.random() < hard:
            text = rng.choice(world.ON_BACKGROUND).format(text, b=rng.choice(list(world.BACKGROUNDS)))
        tokens = tokenizer(text, TEXT)
        row[: len(tokens)] = torch.tensor(tokens)
    return ids, directions


def train_text(work, minutes, peak):
    """Teaches a trained text encoder what the order of words means ("from left to right"), which it does not find out
    under the denoiser's loss; what it says of all other captions stays as it was. The first head is made to look at the
    word before, the second at the one before that."""
    torch.manual_seed(5)
    tokenizer, state = Tokenizer(f"{work}/spiece.model"), torch.load(f"{work}/diffusion.pt")
    text = model.new_text_encoder(tokenizer.vocabulary)
    text.load_state_dict(state["text"])
    before = copy.deepcopy(text).eval()
    bias = text.encoder.block[0].layer[0].SelfAttention.relative_attention_bias.weight.data  # (distance, head)
    bias[1, 0] += 4
    bias[2, 1] += 4
    head, rng = torch.nn.Linear(model.T5_CONFIG["d_model"], 4), world.seeded("text")
    both = torch.nn.ModuleList([text, head])
    optimizers = new_optimizers(both, peak)
    budget = Budget(optimizers, minutes, 50)
    while budget.tick():
        ids, directions = ordered_ids(rng, tokenizer, 48, budget.spent() / 2)
        keep = ids != 0
        said = text(input_ids=ids, attention_mask=keep.long()).last_hidden_state
        told = F.cross_entropy(head((said * keep[..., None]).sum(1) / keep.sum(1, keepdim=True)), directions)
        keys = [(rng.choice(world.TRAIN_COMBINATIONS), rng.choice(list(world.BACKGROUNDS))) for _ in range(32)]
        ids, keep, _ = captions(rng, tokenizer, keys)
        with torch.no_grad():
            want = before(input_ids=ids, attention_mask=keep.long()).last_hidden_state
        drift = text(input_ids=ids, attention_mask=keep.long()).last_hidden_state - want
        drift = ((drift.square() * keep[..., None]).sum() / keep.sum()) / want.shape[-1] / want.var()
        (told + 4 * drift).backward()
        torch.nn.utils.clip_grad_norm_(both.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        if budget.step % 50 == 0:
            print(f"text step {budget.step} spent {budget.spent():.3f} direction {told:.4f} drift {drift:.4f}", flush=True)
    save(f"{work}/diffusion.pt", {**state, "text": text.state_dict()})


def train_diffusion(work, minutes, peak, batch=32):
    """T5 encoder and STDiT end to end; a tenth of the captions is replaced by the null caption.
    Goes on from an earlier checkpoint."""
    torch.manual_seed(2)
    tokenizer, latents, tables = Tokenizer(f"{work}/spiece.model"), Latents(work), diffusion.Tables()
    text, net = model.new_text_encoder(tokenizer.vocabulary), model.STDiT(model.STDIT_CONFIG)
    both = torch.nn.ModuleList([text, net, Helpers()])
    resumed = os.path.exists(f"{work}/diffusion.pt")
    if resumed:
        state = torch.load(f"{work}/diffusion.pt")
        text.load_state_dict(state["text"])
        net.load_state_dict(state["net"])
        torch.manual_seed(time.time_ns() % 2 ** 31)
    rng = world.seeded("diffusion", time.time() if resumed else 0)
    fast = torch.compile(net)
    optimizers = new_optimizers(both, peak)
    budget, average, balance = Budget(optimizers, minutes, 100 if resumed else 200), Average(both, 0.995), Balance()

    def checkpoint():
        state = [m.state_dict() for m in average.shadow[:2]]
        save(f"{work}/diffusion.pt", dict(text=state[0], net=state[1], mean=latents.mean, std=latents.std))

    while budget.tick():
        keys = [(rng.choice(world.TRAIN_COMBINATIONS), rng.choice(list(world.BACKGROUNDS))) for _ in range(batch)]
        x0 = torch.stack([latents.draw(rng, *key) for key in keys])
        ids, keep, named = captions(rng, tokenizer, keys)
        other = rng.random() < 0.05
        x0 = shorter(rng, x0) if other else x0
        t = torch.where(torch.rand(batch) < 0.6, torch.randint(0, 1000, (batch,)), torch.randint(150, 750, (batch,)))
        noise = torch.randn_like(x0)
        noisy = diffusion.pick(tables.signal, t) * x0 + diffusion.pick(tables.noise, t) * noise
        with torch.autocast("cpu", torch.bfloat16):
            y = text(input_ids=ids, attention_mask=keep.long()).last_hidden_state.float()
            dropped = torch.rand(batch, 1, 1) < model.STDIT_CONFIG["class_dropout_prob"]
            said = y
            y = torch.where(dropped, net.y_embedder.y_embedding[:TEXT], y)
            out, after = (net if other else fast)(noisy, t, y, keep, True)
            helped = both[2](after, x0, said, keep, keys, named, ~dropped[:, 0, 0])
        simple, bound = diffusion.losses(tables, out, x0, noisy, noise, t)
        (balance(simple, t) + bound.mean() + helped).backward()
        torch.nn.utils.clip_grad_norm_(both.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        average.update()
        if budget.step % 50 == 0:
            shown = " ".join(f"{v:.5f}" for v in balance.mean[2::5].tolist())
            print(f"step {budget.step} spent {budget.spent():.3f} helpers {helped:.3f} bound {bound.mean():.4f} eps loss at t=100,300..900: {shown}", flush=True)
        if budget.due():
            checkpoint()
    checkpoint()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stages", nargs="+", choices=["tokenizer", "vae", "cache", "decoder", "diffusion", "text"])
    parser.add_argument("--work", required=True)
    parser.add_argument("--vae-minutes", type=float, default=14)
    parser.add_argument("--vae-rate", type=float, default=2e-3)
    parser.add_argument("--decoder-minutes", type=float, default=8)
    parser.add_argument("--diffusion-minutes", type=float, default=60)
    parser.add_argument("--diffusion-rate", type=float, default=1e-3)
    parser.add_argument("--text-minutes", type=float, default=4)
    parser.add_argument("--text-rate", type=float, default=1.5e-3)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    os.makedirs(args.work, exist_ok=True)
    if "tokenizer" in args.stages:
        train_tokenizer(args.work)
    if "vae" in args.stages:
        train_vae(args.work, args.vae_minutes, args.vae_rate)
    if "cache" in args.stages:
        build_cache(args.work)
    if "decoder" in args.stages:
        train_decoder(args.work, args.decoder_minutes)
    if "diffusion" in args.stages:
        train_diffusion(args.work, args.diffusion_minutes, args.diffusion_rate)
    if "text" in args.stages:
        train_text(args.work, args.text_minutes, args.text_rate)


if __name__ == "__main__":
    main()
