"""The programs that `latentbeam init --template diffusers` and `caption` write, on tiny random models."""

import os
import sys
import tempfile
import unittest
from importlib import util
from pathlib import Path
from typing import Any

try:
    import torch
    import transformers
except ImportError:
    raise unittest.SkipTest("NOT TESTED: there is no torch or transformers for the templates") from None

TEMPLATES = Path(__file__).parents[3] / "internal" / "cli" / "templates"
WORDS = ["<pad>", "</s>", "<unk>", "a", "red", "circle", "blue", "square", "goes", "up", "on", "black"]


def load(name: str, model: str) -> Any:
    """The template as a module, which loads the model at its start."""
    os.environ["MODEL"] = model
    spec = util.spec_from_file_location("template_" + name, TEMPLATES / (name + ".py"))
    assert spec is not None and spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Row:
    """A row as the package gives it, without a batch."""

    def __init__(self, **params: Any) -> None:
        self.params, self.inputs, self.seed, self.steps = params, {}, params.get("seed"), []
        self.prompt = params.get("prompt", "")

    def torch_generator(self) -> Any:
        return torch.Generator().manual_seed(self.seed)

    def on_step_end(self, pipe: Any, step: int, timestep: Any, kwargs: dict) -> dict:
        self.steps.append(step)
        return kwargs


def tokenizer(directory: str) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers

    t = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=t, pad_token="<pad>", eos_token="</s>",
                                                unk_token="<unk>", bos_token="</s>", model_max_length=16)


def tiny_wan(directory: str) -> None:
    from diffusers import AutoencoderKLWan, UniPCMultistepScheduler, WanPipeline, WanTransformer3DModel

    torch.manual_seed(0)
    text = transformers.UMT5EncoderModel(transformers.UMT5Config(
        vocab_size=len(WORDS), d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2))
    WanPipeline(
        tokenizer=tokenizer(directory), text_encoder=text.eval(),
        transformer=WanTransformer3DModel(patch_size=(1, 2, 2), num_attention_heads=2, attention_head_dim=12,
                                          in_channels=16, out_channels=16, text_dim=16, freq_dim=32, ffn_dim=32,
                                          num_layers=1),
        vae=AutoencoderKLWan(base_dim=3, z_dim=16, dim_mult=[1, 1, 1, 1], num_res_blocks=1),
        scheduler=UniPCMultistepScheduler(prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=3.0),
    ).save_pretrained(directory)


def tiny_sd(directory: str) -> None:
    from diffusers import AutoencoderKL, DDIMScheduler, StableDiffusionPipeline, UNet2DConditionModel

    torch.manual_seed(0)
    text = transformers.CLIPTextModel(transformers.CLIPTextConfig(
        vocab_size=len(WORDS), hidden_size=32, intermediate_size=37, num_hidden_layers=1, num_attention_heads=4,
        max_position_embeddings=16, bos_token_id=1, eos_token_id=1, pad_token_id=0))
    StableDiffusionPipeline(
        vae=AutoencoderKL(block_out_channels=[32, 64], down_block_types=["DownEncoderBlock2D"] * 2,
                          up_block_types=["UpDecoderBlock2D"] * 2, latent_channels=4),
        text_encoder=text, tokenizer=tokenizer(directory),
        unet=UNet2DConditionModel(block_out_channels=(32, 64), layers_per_block=1, sample_size=16,
                                  down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
                                  up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), cross_attention_dim=32,
                                  attention_head_dim=8),
        scheduler=DDIMScheduler(clip_sample=False), safety_checker=None, feature_extractor=None,
        requires_safety_checker=False).save_pretrained(directory)


def tiny_blip(directory: str) -> None:
    torch.manual_seed(0)
    config = transformers.BlipConfig(
        text_config=dict(vocab_size=len(WORDS), hidden_size=16, encoder_hidden_size=16, intermediate_size=16,
                         num_hidden_layers=1, num_attention_heads=2, max_position_embeddings=32, bos_token_id=1,
                         eos_token_id=1, sep_token_id=1, pad_token_id=0),
        vision_config=dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
                           image_size=32, patch_size=16), projection_dim=16)
    transformers.BlipForConditionalGeneration(config).save_pretrained(directory)
    size = {"height": 32, "width": 32}
    transformers.BlipProcessor(transformers.BlipImageProcessor(size=size), tokenizer(directory)).save_pretrained(directory)


class TestTemplates(unittest.TestCase):
    def setUp(self) -> None:
        try:
            import accelerate  # noqa: F401
            import diffusers  # noqa: F401
        except ImportError:
            self.skipTest("NOT TESTED: there is no diffusers or accelerate for the template")

    def generate(self, make: Any, **more: Any) -> Any:
        with tempfile.TemporaryDirectory() as directory:
            make(directory)
            module = load("diffusers", directory)
        params = dict(prompt="a red circle", negative_prompt="", height=16, width=16, num_inference_steps=3,
                      guidance_scale=2.0, seed=7, **more)
        rows = [Row(**params), Row(**dict(params, seed=8)), Row(**params)]
        first, other, again = list(module.generate(rows))
        self.assertEqual(rows[0].steps, [0, 1, 2])
        return first, other, again

    def test_video(self) -> None:
        first, other, again = self.generate(tiny_wan, num_frames=5)
        self.assertEqual(first.shape, (5, 16, 16, 3))
        self.assertTrue((first == again).all())
        self.assertFalse((first == other).all())

    def test_image(self) -> None:
        first, other, again = self.generate(tiny_sd)
        self.assertEqual([image.size for image in first], [(16, 16)])
        self.assertEqual(first[0].tobytes(), again[0].tobytes())
        self.assertNotEqual(first[0].tobytes(), other[0].tobytes())

    def test_size_is_the_rows_matter(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            tiny_sd(directory)
            module = load("diffusers", directory)
        from latentbeam_stage import RowError

        (answer,) = module.generate([Row(prompt="a", height=15, width=16, num_inference_steps=1, seed=1)])
        self.assertIsInstance(answer, RowError)
        self.assertIn("divisible", str(answer))


class TestCaption(unittest.TestCase):
    def test_caption(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            tiny_blip(directory)
            module = load("caption", directory)
        good, bad = Row(), Row()
        good.inputs = {"media": str(TEMPLATES / "sample.png")}
        bad.inputs = {"media": str(TEMPLATES / "nothing.png")}
        text, failed = list(module.caption([good, bad]))
        self.assertIsInstance(text, str)
        self.assertIn("no picture can be read", str(failed))


if __name__ == "__main__":
    unittest.main()
