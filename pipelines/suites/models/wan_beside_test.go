package models

import (
	"encoding/json"
	"fmt"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/system/testaid"
	"latentbeam/schemas"
)

// forDiffusers is a program that completes a directory of wanDir for diffusers: it adds a tokenizer.json for ASCII prompts and gives the
// weights all their axes.
const forDiffusers = `
import sys, diffusers, sentencepiece, transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors
pieces = sentencepiece.SentencePieceProcessor(model_file=sys.argv[1] + "/tokenizer/spiece.model")
t = Tokenizer(models.Unigram([(pieces.id_to_piece(i), pieces.get_score(i)) for i in range(len(pieces))], unk_id=pieces.unk_id()))
t.pre_tokenizer = pre_tokenizers.Metaspace()
t.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", pieces.eos_id())])
transformers.PreTrainedTokenizerFast(tokenizer_object=t, pad_token="<pad>", eos_token="</s>", unk_token="<unk>").save_pretrained(sys.argv[1] + "/tokenizer")
for part, kind in (("vae", diffusers.AutoencoderKLWan), ("transformer", diffusers.WanTransformer3DModel)):
    name = f"{sys.argv[1]}/{part}/diffusion_pytorch_model.safetensors"
    want, have = kind.from_config(kind.load_config(f"{sys.argv[1]}/{part}")).state_dict(), load_file(name)
    save_file({k: have[k].reshape(v.shape) for k, v in want.items()}, name, {"format": "pt"})
`

// TestWanBesideDiffusers runs python/examples/wan_beside.py, which shows our frames beside those of diffusers, from the same weights and
// noise.
func TestWanBesideDiffusers(t *testing.T) {
	testaid.Needs(t, "python3")
	program, err := filepath.Abs("../../../python/examples/wan_beside.py")
	jobtest.Must(t, err)
	if out, err := osexec.Command("python3", "-c", "import torch, diffusers, transformers, sentencepiece").CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED: python/examples/wan_beside.py: %s", out[max(0, len(out)-100):])
	}
	t.Setenv("PYTHONPATH", "../../../python/latentbeam-stage/src")
	t.Setenv("PYTHONDONTWRITEBYTECODE", "1")
	for name, c := range wanCases(t) {
		if c.Guidance2 != nil || name != "unipc" {
			continue
		}
		var scheduler struct {
			Class string `json:"_class_name"`
		}
		jobtest.Must(t, json.Unmarshal(c.Scheduler, &scheduler))
		c.Index = fmt.Appendf(nil, `{"_class_name": "WanPipeline", "_diffusers_version": "0.42.1", "text_encoder": ["transformers", "UMT5EncoderModel"],
			"tokenizer": ["transformers", "T5TokenizerFast"], "transformer": ["diffusers", "WanTransformer3DModel"],
			"vae": ["diffusers", "AutoencoderKLWan"], "scheduler": ["diffusers", %q]}`, scheduler.Class)
		dir := wanDir(t, c)
		if out, err := osexec.Command("python3", "-c", forDiffusers, dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		beside := fmt.Sprintf("{exec: {name: beside, command: [python3, %q], takes: frames, gives: frames, params: [prompt, "+
			"negative_prompt, height, "+
			"width, num_frames, num_inference_steps, guidance_scale, noise], env: {MODEL: %q}}}", program, dir)
		j := jobtest.Job{Prompts: wanTable(t, c), Out: filepath.Join(t.TempDir(), "out"),
			Stages: "[encode_text, denoise, decode_vae, " + beside + ", encode_video]",
			Sets:   []string{"model=" + dir, "output.write=[video]", "defaults.num_frames=1"}}
		if r, err := j.Run(); err != nil || r.Totals.Done != 1 {
			t.Errorf("%s: got error %v, failures %+v", name, err, jobtest.ReadRows[schemas.FailureRow](t, j.Out, "failures"))
			continue
		}
		for _, v := range jobtest.ReadRows[schemas.VideoRow](t, j.Out, "videos") {
			t.Logf("%s: %dx%d, %s", name, v.Width, v.Height, v.Readings)
			if v.Width != int64(2*c.Width) || !strings.Contains(v.Readings, `"apart_at_most":"0"`) &&
				!strings.Contains(v.Readings, `"apart_at_most":"1"`) {
				t.Errorf("%s: our frames differ from those of diffusers: %+v", name, v)
			}
		}
	}
}
