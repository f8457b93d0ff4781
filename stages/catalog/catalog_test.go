package catalog

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"latentbeam/internal/config"
	"latentbeam/internal/config/document"
	"latentbeam/stages"
	"latentbeam/stages/clip"
	"latentbeam/stages/nn/nntest"
	"latentbeam/testdata/tiny"
)

var (
	kinds = []stages.Kind{stages.KindPrompt, stages.KindText, stages.KindMedia, stages.KindLatents,
		stages.KindFrames, stages.KindVideo}
	params = []stages.Param{stages.ParamPrompt, stages.ParamNegativePrompt, stages.ParamMaxSequenceLength,
		stages.ParamSeed, stages.ParamMedia, stages.ParamHeight, stages.ParamWidth, stages.ParamNumFrames, stages.ParamFPS,
		stages.ParamSteps, stages.ParamGuidanceScale, stages.ParamAes, stages.ParamFlow, stages.ParamCameraMotion,
		stages.ParamReference, stages.ParamMaskStrategy, stages.ParamLoop, stages.ParamConditionFrameLength,
		stages.ParamConditionFrameEdit, stages.ParamGuidanceScale2, stages.ParamNoise, stages.ParamCut}
	name = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
)

// modelOf is the built-in model, or for a stage that it has nothing for the smallest one.
func modelOf(t *testing.T, s stages.Spec) *stages.Model {
	t.Helper()
	name, files := "tiny", tiny.Files()
	if s.Name == "embed_image" {
		config := []byte(`{"model_type": "clip_vision_model", "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2,
			"num_attention_heads": 2, "image_size": 28, "patch_size": 14, "hidden_act": "gelu"}`)
		cfg, err := clip.ParseConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		files = fstest.MapFS{"image_encoder/config.json": &fstest.MapFile{Data: config},
			"image_encoder/model.safetensors": &fstest.MapFile{Data: nntest.FileBytes(t, nntest.Shapes(t, cfg, clip.Load))}}
	}
	m, err := stages.EmbeddedModel(name, files)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestEverySpecIsComplete: a Spec has everything that jobs, keys and the command line need.
func TestEverySpecIsComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range All() {
		switch {
		case !name.MatchString(s.Name):
			t.Errorf("%q is no name for a YAML key", s.Name)
		case seen[s.Name]:
			t.Errorf("two stages are called %s", s.Name)
		case len(s.Doc) < 20 || strings.Contains(s.Doc, "\n"):
			t.Errorf("%s: the doc must be one line of 20 bytes or more: %q", s.Name, s.Doc)
		case s.Version < 1 || s.New == nil:
			t.Errorf("%s: version %d, or no way to open it", s.Name, s.Version)
		case (s.In == "") != (s.Out == ""):
			t.Errorf("%s takes %q and gives %q", s.Name, s.In, s.Out)
		case s.Passive && s.In != s.Out:
			t.Errorf("%s is passive and changes the kind", s.Name)
		}
		seen[s.Name] = true
		for _, k := range []stages.Kind{s.In, s.Out} {
			if k != "" && !slices.Contains(kinds, k) {
				t.Errorf("%s: unknown kind %q", s.Name, k)
			}
		}
		for i, p := range s.Params {
			if !slices.Contains(params, p) || slices.Contains(s.Params[:i], p) {
				t.Errorf("%s: parameter %q is unknown or stands twice", s.Name, p)
			}
		}
	}
}

// least are the options that a stage needs to open, nil if it needs none.
func least(t *testing.T, s stages.Spec) stages.Options {
	t.Helper()
	if s.Program == nil {
		return nil
	}
	o, err := config.ParseOptions(s.Name, "{command: [cat], takes: prompt, gives: frames}")
	if err != nil {
		t.Fatal(err)
	}
	return o.Decode
}

// TestEveryStageOpens with the built-in model and as few options as can be, and says what it is.
func TestEveryStageOpens(t *testing.T) {
	for _, s := range All() {
		stage, err := s.New(modelOf(t, s), least(t, s))
		if err != nil {
			t.Errorf("%s: %v", s.Name, err)
			continue
		}
		if weights := stage.Capabilities().Loading != nil; weights != (stage.Digest() != "") {
			t.Errorf("%s: it has weights: %v, and the digest %q", s.Name, weights, stage.Digest())
		}
		again, err := s.New(modelOf(t, s), least(t, s))
		if err != nil || again.Digest() != stage.Digest() {
			t.Errorf("%s: the digest changes: %q, %q, %v", s.Name, stage.Digest(), again.Digest(), err)
		}
	}
}

// TestOptionsAreStrict: an unknown key and a wrong type are errors with their line, in every stage.
func TestOptionsAreStrict(t *testing.T) {
	for _, s := range All() {
		if s.Name == "measure_shapes" {
			continue // it has no options; the job refuses any
		}
		for text, want := range map[string]string{
			"\nno_such_option: 1": s.Name + ":2", "clean: [1]\nreject: {a: 1}\ncodec: []\ncfg_channel: x\n" +
				"micro_batch_size: x\n": s.Name + ":",
		} {
			o, err := config.ParseOptions(s.Name, text)
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.New(modelOf(t, s), o.Decode)
			var located *document.Error
			if !errors.As(err, &located) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s with %q: %v, want an error at %s", s.Name, text, err, want)
			}
		}
	}
}

// TestOptionsOfOneStage are checked when it is opened.
func TestOptionsOfOneStage(t *testing.T) {
	for _, c := range []struct{ stage, options, want string }{
		{"encode_text", "clean: false", ""},
		{"denoise", "sequence_parallel: auto", ""},
		{"denoise", "cfg_channel: 4", ""},
		{"denoise", "sequence_parallel: 3", ""},
		{"denoise", "sequence_parallel: 0", "auto or a whole number of 1 or more"},
		{"denoise", "{tp_size: 4, pp_size: 4}", ""},
		{"denoise", "tp_size: 5", "tp_size is 5: the 4 heads"},
		{"encode_text", "{tp_size: auto, pp_size: 2}", ""},
		{"encode_text", "pp_size: 3", "pp_size is 3: the 2 blocks"},
		{"denoise", "partition: pad", ""},
		{"denoise", "partition: even", `partition is "even": give auto, uneven or pad`},
		{"denoise", "cfg_channel: 5", "cfg_channel is 5: give 1 to 4"},
		{"decode_vae", "micro_batch_size: 1", ""},
		{"decode_vae", "micro_batch_size: 0", "micro_batch_size is 0: give 1 or more frames"},
		{"encode_image", "frames: all", ""},
		{"encode_image", "frames: two", `frames is "two": give first or all`},
		{"guard", "reject: [nan, black, frozen]", ""},
		{"guard", "reject: []", ""},
		{"guard", "reject: [blur]", `reject names "blur"; there are nan, black and frozen`},
		{"encode_video", "{codec: h264, encoder: embedded, qp: 30, gop: 8}", ""},
		{"encode_video", "codec: av1", `codec "av1" is unknown; there is h264`},
		{"encode_video", "encoder: x264", `encoder "x264" is unknown; there are embedded and ffmpeg`},
		{"encode_video", "qp: 52", "encode_video: qp is 52: give 1 to 51, or 0 for the default"},
		{"encode_video", "gop: 1000", "encode_video: gop is 1000: give 1 to 256, or 0 for the default"},
	} {
		spec, ok := stages.Find(All(), c.stage)
		if !ok {
			t.Fatalf("no stage %s", c.stage)
		}
		o, err := config.ParseOptions(c.stage, c.options)
		if err != nil {
			t.Fatal(err)
		}
		_, err = spec.New(modelOf(t, spec), o.Decode)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s {%s}: %v, want %q", c.stage, c.options, err, c.want)
		}
	}
}

// TestTextToVideoFits: all stages of the catalogue in order, except those that take media, make a valid job.
func TestTextToVideoFits(t *testing.T) {
	names := slices.DeleteFunc(stages.Names(All()), func(name string) bool { return name == "encode_vae" || name == "quality" })
	if _, at, err := stages.Fit(stages.KindPrompt, names, All()); err != nil {
		t.Errorf("stage %d: %v", at, err)
	}
	for _, names := range [][]string{{"encode_vae"}, {"quality", "guard", "encode_vae", "encode_text"},
		{"encode_vae", "encode_text"}, {"encode_text", "encode_vae"},
		{"encode_vae", "decode_vae", "encode_video"}} {
		if _, at, err := stages.Fit(stages.KindMedia, names, All()); err != nil {
			t.Errorf("%v: stage %d: %v", names, at, err)
		}
	}
}
