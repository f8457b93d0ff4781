"""The shapes world: what the built-in model is trained on.

One coloured shape on a plain background, moving in one direction at constant speed or standing
still. This file holds the exact colours and geometry, the anti-aliased renderer, the caption
grammar and the split into training and held-out combinations and wordings. No images are stored:
everything is drawn from a random generator.
"""

import pathlib
import random

import torch

SIZE, FRAMES, FPS = 64, 16, 8

# RGB, 0..255. The hues are 0, 29, 53, 131, 227 and 285 degrees.
COLORS = {
    "red": (225, 40, 40),
    "orange": (245, 130, 20),
    "yellow": (245, 220, 40),
    "green": (30, 160, 54),
    "blue": (40, 82, 230),
    "purple": (170, 50, 210),
}
BACKGROUNDS = {"black": (10, 10, 10), "grey": (128, 128, 128), "white": (245, 245, 245)}
SHAPES = ("circle", "square", "triangle")
MOTIONS = ("left", "right", "up", "down", "still")
STEP = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1), "still": (0, 0)}

# Widths of the bounding box in pixels at 64x64, and speed in pixels a frame (y points down).
WIDTH = {"circle": (20.0, 24.0), "square": (18.0, 22.0), "triangle": (24.0, 27.0)}
TRIANGLE_HEIGHT = 0.88  # of its width; the triangle is isosceles and points up
SPEED = (1.6, 2.2)
MARGIN = 2.0  # pixels that always stay free between the shape and the border
JITTER_ALONG, JITTER_ACROSS = 3.0, 8.0  # how far the middle of the path may lie from the centre


def held_out(color, shape, motion):
    """True for the 18 of 90 combinations never shown in training: one motion per colour and shape."""
    c, s, m = list(COLORS).index(color), SHAPES.index(shape), MOTIONS.index(motion)
    return (c + 2 * s + 3 * m) % 5 == 0


COMBINATIONS = [(c, s, m) for c in COLORS for s in SHAPES for m in MOTIONS]
TRAIN_COMBINATIONS = [k for k in COMBINATIONS if not held_out(*k)]
TEST_COMBINATIONS = [k for k in COMBINATIONS if held_out(*k)]

# ---------------------------------------------------------------------------------- rendering


def coverage(shape, width, cx, cy, height_px, width_px):
    """Anti-aliased coverage 0..1, (n, height_px, width_px), of shapes centred at cx, cy (n values)."""
    ys = torch.arange(height_px, dtype=torch.float32)[None, :, None] + 0.5
    xs = torch.arange(width_px, dtype=torch.float32)[None, None, :] + 0.5
    dx, dy = xs - cx[:, None, None], ys - cy[:, None, None]
    half = width / 2
    if shape == "circle":
        return (half + 0.5 - torch.sqrt(dx * dx + dy * dy)).clamp(0, 1)
    if shape == "square":
        return (half + 0.5 - dx.abs()).clamp(0, 1) * (half + 0.5 - dy.abs()).clamp(0, 1)
    rise = width * TRIANGLE_HEIGHT
    # Signed distances to the base and to the two sides that meet at the apex (0, -rise/2).
    norm = (rise * rise + half * half) ** 0.5
    side = (rise * dx.abs() - half * (dy + rise / 2)) / norm
    return (0.5 - side).clamp(0, 1) * (rise / 2 + 0.5 - dy).clamp(0, 1)


def paint(alpha, color, background):
    """Blends RGB triples by coverage: (n, 3, H, W) in [-1, 1]."""
    fg = torch.tensor(color, dtype=torch.float32)[None, :, None, None]
    bg = torch.tensor(background, dtype=torch.float32)[None, :, None, None]
    return (bg + (fg - bg) * alpha[:, None]) / 127.5 - 1


def path(rng, shape, motion, width, frames, height_px, width_px):
    """Centres (cx, cy) per frame: a straight path around the middle that stays inside the margin."""
    box = (width, width * TRIANGLE_HEIGHT if shape == "triangle" else width)
    speed = rng.uniform(*SPEED)
    centres = []
    for axis, extent in ((0, width_px), (1, height_px)):
        step = STEP[motion][axis] * speed
        travel = abs(step) * (frames - 1)
        room = max(0.0, (extent - 2 * MARGIN - box[axis] - travel) / 2)
        jitter = min(room, JITTER_ALONG if travel else JITTER_ACROSS)
        middle = extent / 2 + rng.uniform(-jitter, jitter)
        centres.append(middle + step * (torch.arange(frames) - (frames - 1) / 2))
    return centres


def clip(rng, color, shape, motion, background, frames=FRAMES, height_px=SIZE, width_px=SIZE):
    """One video, (frames, 3, H, W) in [-1, 1]."""
    width = rng.uniform(*WIDTH[shape])
    cx, cy = path(rng, shape, motion, width, frames, height_px, width_px)
    alpha = coverage(shape, width, cx, cy, height_px, width_px)
    return paint(alpha, COLORS[color], BACKGROUNDS[background])


def still_image(rng, odd=0.05):
    """One frame for the VAE, (1, 3, 64, 64): any place inside the frame, and
    with chance odd any colour."""
    shape = rng.choice(SHAPES)
    color, background = rng.choice(list(COLORS.values())), rng.choice(list(BACKGROUNDS.values()))
    if rng.random() < odd:
        color = tuple(rng.uniform(0, 255) for _ in range(3))
    if rng.random() < odd:
        background = tuple(rng.uniform(0, 255) for _ in range(3))
    width = rng.uniform(*WIDTH[shape])
    room = SIZE / 2 - width / 2 - 1
    cx, cy = (torch.tensor([SIZE / 2 + rng.uniform(-room, room)]) for _ in range(2))
    return paint(coverage(shape, width, cx, cy, SIZE, SIZE), color, background)


# ----------------------------------------------------------------------------------- captions

COLOR_WORDS = {k: [k] for k in COLORS} | {"purple": ["purple", "purple", "violet"]}
BACKGROUND_WORDS = {"black": ["black"], "white": ["white"], "grey": ["grey", "gray"]}
SHAPE_WORDS = {
    "circle": ["circle", "circle", "ball", "disc", "disk"],
    "square": ["square", "square", "box", "block"],
    "triangle": ["triangle"],
}
VERBS = [("moves", "moving"), ("moves", "moving"), ("slides", "sliding"), ("drifts", "drifting"), ("goes", "going"),
         ("glides", "gliding"), ("travels", "travelling"), ("floats", "floating"), ("flies", "flying"),
         ("shifts", "shifting"), ("runs", "running"), ("is moving", "moving")]
DIRECTIONS = {
    "left": ["left", "left", "to the left", "leftward", "leftwards", "towards the left", "from right to left",
             "to the left side", "toward the left edge"],
    "right": ["right", "right", "to the right", "rightward", "rightwards", "towards the right", "from left to right",
              "to the right side", "toward the right edge"],
    "up": ["up", "up", "upward", "upwards", "to the top", "towards the top", "from bottom to top",
           "from the bottom to the top"],
    "down": ["down", "down", "downward", "downwards", "to the bottom", "towards the bottom", "from top to bottom",
             "from the top to the bottom"],
}
OWN_VERBS = {  # verbs that carry their direction
    "up": [("rises", "rising"), ("climbs", "climbing"), ("ascends", "ascending"), ("goes up", "going up")],
    "down": [("falls", "falling"), ("sinks", "sinking"), ("drops", "dropping"), ("descends", "descending")],
    "still": [("stays still", "staying still"), ("does not move", "not moving"), ("stands still", "standing still"),
              ("remains still", "remaining still"), ("is still", "still"), ("stays in place", "staying in place"),
              ("is motionless", "motionless"), ("rests", "resting"), ("sits still", "sitting still"),
              ("keeps still", "keeping still"), ("is at rest", "at rest"), ("doesn't move", "without moving"),
              ("stays where it is", "staying where it is"), ("is not moving", "not moving at all")],
}

TRAIN_WORDINGS = [
    "{a} {c} {s} {moves}", "{a} {c} {s} {moves}", "{a} {c} {s} {moving}", "{a} {c} {s} {moving}",
    "{c} {s} {moving}", "{c} {s} {moves}", "{c} {s}, {moving}", "{moving}: {a} {c} {s}",
    "{a} {s} that is {c} {moves}", "{a} {c} {s} that {moves}", "{a} {s} {moves}, it is {c}",
    "a video of {a} {c} {s} {moving}", "a clip in which {a} {c} {s} {moves}", "there is {a} {c} {s} and it {moves}",
    "show {a} {c} {s} {moving}", "{a} {s} in {c} {moves}", "the {s} is {c} and {moves}", "{s}, {c}, {moving}",
    "in this video {a} {c} {s} {moves}", "one {c} {s}, it {moves}", "{a} {c} {s} is seen {moving}",
    "a {s} {moves}. the {s} is {c}", "a short video where the {c} {s} {moves}", "{c} coloured {s} {moving}",
    "it {moves}: {a} {c} {s}", "a small {c} {s} {moves}", "the {s} {moves} and is {c}",
]
HELD_OUT_WORDINGS = [
    "an animation of {a} {c} {s} which {moves}", "look, {a} {c} {s} {moving}", "{moving}, {a} {s} that is {c}",
    "we see {a} {c} {s} and it {moves}", "{a} {s}, {c}, {moving}", "short film: the {c} {s} {moves}",
    "here {a} {s} {moves} and it is {c}", "please draw {a} {c} {s} {moving}",
]
# Colour and shape unsaid: as every colour and shape lacks one motion in training, they would else tell the direction.
UNNAMED_WORDINGS = [
    "{moving}", "it {moves}", "it is {moving}", "a shape {moves}", "a shape {moving}", "something {moves}",
    "the thing is {moving}", "a video of an object that {moves}", "an object {moving}",
]
ON_BACKGROUND = ["{} on a {b} background", "{} over a {b} background", "{} in front of a {b} background",
                 "{}, {b} background", "{}; the background is {b}", "{} on {b}", "on a {b} background, {}"]

MEANINGFUL = set("""red orange yellow green blue purple violet crimson pink cyan teal magenta turquoise golden navy lime
brown gold black grey gray white circle ball disc disk square box block cube sphere rectangle diamond triangle hexagon
star heart move motion still rest stop stay fall drop rise climb sink fly run go went top bottom up down left right not
never no north south east west jump jumps bounces diagonal sideways from to""".split())

# Words without meaning in this world. They are strewn into training captions so that the model
# learns to look past words it does not know.
FILLERS = pathlib.Path(__file__).with_name("words.txt").read_text().split()
FILLERS = [word for word in FILLERS if word not in MEANINGFUL]


def phrase(rng, motion, ordered=False):
    """A pair of phrases for a motion: finite ("moves left") and participle ("moving left"). An ordered one names
    both sides ("from left to right"), so that only the order of the words tells the direction."""
    own = OWN_VERBS.get(motion, [])
    if motion == "still" or (own and not ordered and rng.random() < 0.3):
        return rng.choice(own)
    directions = [d for d in DIRECTIONS[motion] if not ordered or d.startswith("from ")]
    verb, direction = rng.choice(VERBS), rng.choice(directions)
    return verb[0] + " " + direction, verb[1] + " " + direction


def caption(rng, color, shape, motion, background=None, wordings=TRAIN_WORDINGS, filler=0.0, ordered=False):
    """One caption. background None leaves it unsaid; filler is the chance of strewn-in words."""
    c, s = rng.choice(COLOR_WORDS[color]), rng.choice(SHAPE_WORDS[shape])
    moves, moving = phrase(rng, motion, ordered)
    wording = rng.choice(wordings)
    first = c if "{a} {c}" in wording else s
    article = rng.choice(["a", "a", "a", "the"])
    if article == "a" and first[0] in "aeiou":
        article = "an"
    text = wording.format(a=article, c=c, s=s, moves=moves, moving=moving)
    if background:
        text = rng.choice(ON_BACKGROUND).format(text, b=rng.choice(BACKGROUND_WORDS[background]))
    if rng.random() < filler:
        words = text.split(" ")  # words that say nothing about colour, shape or motion may stand anywhere
        for _ in range(rng.choice([1, 1, 2, 3])):
            words.insert(rng.randrange(len(words) + 1), rng.choice(FILLERS))
        text = " ".join(words)
    if rng.random() < 0.3:
        text += "."
    style = rng.random()
    return text[0].upper() + text[1:] if style < 0.4 else text.upper() if style < 0.45 else text


def clean(text):
    """What the tokenizer sees. The captions hold nothing else that caption cleaning would change."""
    return text.lower().strip()


def seeded(*parts):
    """A Python generator from any key, the same on every machine."""
    return random.Random("/".join(map(str, parts)))
