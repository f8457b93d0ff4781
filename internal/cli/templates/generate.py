"""Makes a video of each prompt. Put your model in place of draw()."""
from latentbeam_stage import Result, RowError, Tensor, stage

# Load the model here: the program is started once and serves many rows.


def draw(prompt, seed, width, height, frames):
    """A band of a colour that moves over the picture: bytes, frame by frame, row by row, R, G, B."""
    colour = bytes(hash_of(prompt, seed + i) for i in range(3))
    video = bytearray()
    for t in range(frames):
        at = width * t // frames
        line = bytes(3) * at + colour * (width // 8) + bytes(3) * width
        video += line[:3 * width] * height
    return bytes(video)


def hash_of(text, seed):
    for c in text.encode():
        seed = (seed * 31 + c) % 65521
    return 64 + seed % 192


@stage(takes="prompt", gives="frames")
def generate(rows):
    for row in rows:
        if not row.prompt.strip():
            yield RowError("the prompt is empty")
            continue
        w, h, n = row.params["width"], row.params["height"], row.params["num_frames"]
        print("drawing", row.prompt)  # goes to generate.log
        video = draw(row.prompt, row.seed, w, h, n)
        yield Result(Tensor("U8", [n, h, w, 3], video), readings={"brightest": max(video)})
        # With numpy or torch, yield the array itself; a list of PIL images is fine too.


generate.run()
