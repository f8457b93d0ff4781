package cli

import (
	"os"
	"path/filepath"
	"testing"
)

// TestInspectModel: a whole directory says what it does and how it samples, before its parts.
func TestInspectModel(t *testing.T) {
	s := newShell(t)
	s.layOut()
	if err := os.Mkdir(filepath.Join(s.dir, "st/scheduler"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.write("st/model_index.json", `{"_class_name": "WanPipeline"}`)
	const scheduler = `{"_class_name": "UniPCMultistepScheduler", "use_flow_sigmas": true, "prediction_type": "flow_prediction", ` +
		`"flow_shift": 5.0`
	s.write("st/scheduler/scheduler_config.json", scheduler+"}")
	s.says(s.run(0, "inspect", "st"), "pipeline", "WanPipeline (text to video)", "model: st", "unipc, flow_shift 5", "vae")
	s.write("st/scheduler/scheduler_config.json", scheduler+`, "solver_order": 3}`)
	s.says(s.run(2, "inspect", "st"), "solver_order of UniPCMultistepScheduler is 3, only 2 is supported")
	s.write("st/model_index.json", `{"_class_name": "FluxPipeline"}`)
	s.says(s.run(0, "inspect", "st"), "FluxPipeline, which is not known", "vae")
	s.write("st/model_index.json", `{`)
	s.says(s.run(2, "inspect", "st"), "model_index.json", "unexpected end of JSON")
}
