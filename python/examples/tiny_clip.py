"""Makes a small CLIP of chance in a directory: tiny_clip.py DIR. Its scores mean nothing; it shows that a job works."""
import sys

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel, CLIPProcessor, PreTrainedTokenizerFast

WORDS = ["<pad>", "</s>", "<unk>", "a", "red", "blue", "circle", "square", "goes", "right", "stands", "still", "on", "black", "white"]


def make(directory):
    torch.manual_seed(0)
    common = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2)
    config = CLIPConfig(
        text_config=dict(common, vocab_size=len(WORDS), max_position_embeddings=32, bos_token_id=1, eos_token_id=1, pad_token_id=0),
        vision_config=dict(common, image_size=32, patch_size=16), projection_dim=16)
    CLIPModel(config).save_pretrained(directory)
    words = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="</s>", unk_token="<unk>",
                                        bos_token="</s>", model_max_length=32)
    images = CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    CLIPProcessor(images, tokenizer).save_pretrained(directory)


if __name__ == "__main__":
    make(sys.argv[1])
