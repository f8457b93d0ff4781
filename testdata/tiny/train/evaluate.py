"""Prompt tables, and a quick check of the exported model: sample, decode, measure, count.

    python evaluate.py prompts --out ../../prompts
    python evaluate.py score --model ../ --prompts ../../prompts/eval.csv [--steps 20 --guidance 3 --sheet sheet.png]
"""

import argparse
import colorsys
import csv
import json
import os

import torch

import diffusion
import model
import train
import world

HUES = {"red": 0, "orange": 29, "yellow": 53, "green": 131, "blue": 227, "purple": 285}

# ------------------------------------------------------------------------------------- prompts


def write_prompts(out):
    """shapes.csv: 12 demo prompts from the training wordings, any combination. eval.csv: 96 prompts, every
    combination and every wording of them held out of training. Both are drawn, not chosen."""
    os.makedirs(out, exist_ok=True)
    rng = world.seeded("demo prompts")
    motions, colors = list(world.MOTIONS) * 3, list(world.COLORS) * 2
    rng.shuffle(motions), rng.shuffle(colors)
    rows = []
    for i, (color, motion) in enumerate(zip(colors, motions)):
        shape = world.SHAPES[i % 3]
        background = rng.choice([None, None, *world.BACKGROUNDS])
        rows.append((world.caption(rng, color, shape, motion, background), 100 + i, color, shape, motion))
    write_table(f"{out}/shapes.csv", rows)
    rng, rows = world.seeded("eval prompts"), []
    for i in range(96):
        color, shape, motion = world.TEST_COMBINATIONS[i % len(world.TEST_COMBINATIONS)]
        background = rng.choice([None, None, None, *world.BACKGROUNDS])
        text = world.caption(rng, color, shape, motion, background, world.HELD_OUT_WORDINGS)
        rows.append((text, 1000 + 7 * i, color, shape, motion))
    write_table(f"{out}/eval.csv", rows)


def write_table(path, rows):
    with open(path, "w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["prompt", "seed", "color", "shape", "motion"])
        writer.writerows(rows)


# --------------------------------------------------------------------------------- measurement


def overlaps(mask, cx, cy):
    """Intersection over union of a mask with each ideal shape of the same area and centroid."""
    area = mask.sum().item()
    ys, xs = torch.meshgrid(torch.arange(mask.shape[0]) - cy, torch.arange(mask.shape[1]) - cx, indexing="ij")
    base = (2 * area / world.TRIANGLE_HEIGHT) ** 0.5
    rise = base * world.TRIANGLE_HEIGHT
    below = ys + rise * 2 / 3  # the centroid lies two thirds under the apex
    drawn = {
        "circle": xs * xs + ys * ys <= area / torch.pi,
        "square": torch.maximum(xs.abs(), ys.abs()) <= area ** 0.5 / 2,
        "triangle": (below >= 0) & (below <= rise) & (xs.abs() <= base / 2 * below / rise),
    }
    return {name: ((mask & d).sum() / (mask | d).sum()).item() for name, d in drawn.items()}


def measure(frames):
    """(color, shape, motion) of one video (T, 3, H, W) in 0..255."""
    border = torch.cat([frames[:, :, :2].flatten(2), frames[:, :, -2:].flatten(2)], 2)
    background = border.transpose(0, 1).flatten(1).median(1).values
    distance = (frames - background[None, :, None, None]).abs().amax(1)
    inside = distance > 0.5 * distance.flatten().topk(len(frames) * 100).values.mean()
    rgb = frames.permute(1, 0, 2, 3)[:, distance > 0.85 * distance.amax()].mean(1)
    hue = 360 * colorsys.rgb_to_hsv(*(rgb / 255).clamp(0, 1).tolist())[0]
    color = min(HUES, key=lambda k: min(abs(hue - HUES[k]), 360 - abs(hue - HUES[k])))
    shapes, points = [], []
    for time, mask in enumerate(inside):
        ys, xs = mask.nonzero().float().unbind(1)
        if len(xs) >= 20:
            cx, cy = xs.mean().item(), ys.mean().item()
            shapes.append(overlaps(mask, cx, cy))
            points.append((time, cx, cy))
    if len(points) < 8:
        return color, "none", "none"
    votes = {name: torch.tensor([s[name] for s in shapes]).median().item() for name in world.SHAPES}
    shape = max(votes, key=votes.get)
    points = torch.tensor(points) - torch.tensor(points).mean(0)
    dx, dy = ((points[:, :1] * points[:, 1:]).sum(0) / points[:, 0].square().sum()).tolist()
    if max(abs(dx), abs(dy)) < world.SPEED[0] / 2:
        return color, shape if votes[shape] > 0.75 else "none", "still"
    return color, shape if votes[shape] > 0.75 else "none", (
        "none" if max(abs(dx), abs(dy)) < 2 * min(abs(dx), abs(dy))
        else ("left" if dx < 0 else "right") if abs(dx) > abs(dy) else "up" if dy < 0 else "down")


# --------------------------------------------------------------------------------------- score


def load_exported(folder):
    from safetensors.torch import load_file
    tokenizer = train.Tokenizer(f"{folder}/text_encoder/spiece.model")
    text, net, vae = model.new_text_encoder(tokenizer.vocabulary), None, train.new_vae()
    text.load_state_dict(load_file(f"{folder}/text_encoder/model.safetensors"), strict=False)
    net = model.STDiT(json.load(open(f"{folder}/transformer/config.json")))
    net.load_state_dict(load_file(f"{folder}/transformer/model.safetensors"))
    vae.load_state_dict(load_file(f"{folder}/vae/diffusion_pytorch_model.safetensors"))
    return tokenizer, text.eval(), net.eval(), vae.eval()


@torch.no_grad()
def render(networks, prompts, seeds, steps, guidance, shape=(16, 8, 8)):
    """Videos (B, T, 3, H, W) in 0..255."""
    tokenizer, text, net, vae = networks
    ids = [tokenizer(p) for p in prompts]
    longest = max(map(len, ids))
    ids = torch.tensor([row + [0] * (longest - len(row)) for row in ids])
    keep = ids != 0
    y = text(input_ids=ids, attention_mask=keep.long()).last_hidden_state
    null = net.y_embedder.y_embedding[:longest].expand(len(prompts), -1, -1)
    noise = torch.stack([torch.randn(4, *shape, generator=torch.Generator().manual_seed(s)) for s in seeds])
    z = diffusion.sample(net, noise, y, null, keep, steps, guidance, torch.Generator().manual_seed(seeds[0]))
    frames = torch.stack([vae.decode(v.transpose(0, 1) / 0.18215).sample for v in z])
    return ((frames.clamp(-1, 1) + 1) / 2 * 255 + 0.5).clamp(0, 255).floor()


def contact_sheet(videos, path):
    from PIL import Image
    rows = [torch.cat(list(v[:: max(1, len(v) // 8)]), 2) for v in videos]
    image = torch.cat(rows, 1).byte().permute(1, 2, 0).numpy()
    Image.fromarray(image).save(path)


def score(args):
    networks = load_exported(args.model)
    rows = list(csv.DictReader(open(args.prompts)))[: args.limit]
    right, wrong, videos = torch.zeros(4), [], []
    for start in range(0, len(rows), 16):
        part = rows[start : start + 16]
        made = render(networks, [r["prompt"] for r in part], [int(r["seed"]) for r in part], args.steps, args.guidance)
        for row, video in zip(part, made):
            want, got = (row["color"], row["shape"], row["motion"]), measure(video)
            hits = [a == b for a, b in zip(want, got)]
            right += torch.tensor([*hits, all(hits)])
            videos.append(video)
            if not all(hits):
                wrong.append((row["prompt"], want, got))
    for line in wrong[: args.show]:
        print(*line)
    names = ("color", "shape", "motion", "all")
    print(f"steps {args.steps} guidance {args.guidance}:", {k: round(v / len(rows), 3) for k, v in zip(names, right.tolist())})
    if args.sheet:
        contact_sheet(videos[: args.sheet_rows], args.sheet)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=["prompts", "score"])
    parser.add_argument("--out")
    parser.add_argument("--model")
    parser.add_argument("--prompts")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--guidance", type=float, default=3)
    parser.add_argument("--limit", type=int, default=96)
    parser.add_argument("--show", type=int, default=20)
    parser.add_argument("--sheet")
    parser.add_argument("--sheet-rows", type=int, default=16)
    args = parser.parse_args()
    write_prompts(args.out) if args.task == "prompts" else score(args)


if __name__ == "__main__":
    main()
