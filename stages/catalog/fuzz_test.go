package catalog

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"latentbeam/stages"
	"latentbeam/stages/clip"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/diffuse/sampler"
	"latentbeam/stages/osplan"
	"latentbeam/stages/stdit"
	"latentbeam/stages/t5"
	"latentbeam/stages/vae"
	"latentbeam/stages/wan"
)

// FuzzConfig: no bytes in a config.json, scheduler_config.json or model_index.json make a reader of models panic.
func FuzzConfig(f *testing.F) {
	for _, pattern := range []string{"../../testdata/tiny/*.json", "../../testdata/tiny/*/*.json"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Add([]byte(`{"_class_name": "WanTransformer3DModel", "num_layers": 1e9, "patch_size": [1, 2, 0], "num_attention_heads": -1}`))
	f.Add([]byte(`{"_class_name": "UniPCMultistepScheduler", "flow_shift": null, "num_train_timesteps": 0}`))
	f.Add([]byte(`{"_class_name": "AutoencoderKLWan", "dim_mult": [], "z_dim": 0}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = dit.ClassName(data)
		_, _ = t5.ParseConfig(data)
		_, _ = vae.ParseConfig(data)
		_, _ = stdit.ParseConfig(data)
		_, _ = wan.ParseConfig(data)
		_, _ = sampler.ParseScheduler(data, sampler.FlowMatching)
		_, _ = osplan.ParseConfig(data)
		_, _ = sampler.ParseScheduler(data, sampler.VariancePreserving)
		_, _ = clip.ParseConfig(data)
		_, _ = stages.EmbeddedModel("fuzzed", fstest.MapFS{"model_index.json": {Data: data}, "transformer/config.json": {Data: data}})
	})
}
