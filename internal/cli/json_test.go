package cli

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestJSON: verbs that only read have --json, which prints the same facts as data.
func TestJSON(t *testing.T) {
	s := newShell(t, "job.yaml", small, "prompts.csv", "id,prompt,seed\na,a red circle,x\nb,a red circle,y\nc,a,z\nd,b,u\ne,c,v\nf,d,w\ng,a blue square,1\n")
	decode := func(into any, args ...string) {
		t.Helper()
		text, _ := s.both(0, args...)
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	var plan layoutFacts
	decode(&plan, "plan", "job.yaml", "--json")
	if plan.Schema != 1 || plan.Rows != 7 || plan.New != 1 || len(plan.Devices) != 1 || len(plan.Shapes) != 1 || plan.Shapes[0].Rows != 1 ||
		plan.Shapes[0].Seconds == nil || plan.Seconds == nil || !strings.Contains(plan.Text, "predicted: ") {
		t.Errorf("plan --json prints %+v", plan)
	}
	var dry jobPlan
	decode(&dry, "run", "job.yaml", "--dry-run", "--json", "--all-failures")
	if len(dry.First) != 6 {
		t.Errorf("%d failures are named, want all 6", len(dry.First))
	}
	if text := s.run(1, "run", "job.yaml", "--all-failures"); strings.Count(text, "is not a whole number") != 6 || strings.Contains(text, "\n  and ") {
		t.Errorf("the failures of the run are printed as %s", text)
	}
	if text := s.run(1, "run", "job.yaml"); !strings.Contains(text, "\n  and 1 more") {
		t.Errorf("without --all-failures, the run prints %s", text)
	}
	var stages struct{ Stages []stageFacts }
	decode(&stages, "stages", "--json")
	if len(stages.Stages) < 10 || stages.Stages[0].Doc == "" {
		t.Errorf("stages --json prints %+v", stages)
	}
	var found inspectFacts
	decode(&found, "inspect", "tiny", "--json", "--tensors")
	if len(found.Parts) != 3 || found.Parts[0].Component != "text_encoder" || found.Parts[0].Wanted != len(found.Parts[0].Tensors) ||
		found.Parts[0].Misfits == nil || !strings.Contains(found.Text, "complete") {
		t.Errorf("inspect --json prints %+v", found)
	}
	files := s.files("out/videos/*/*.mp4")
	decode(&found, "inspect", files[0], "--json")
	if len(found.Marks) != 2 || found.Marks[1].Name != "iptc" {
		t.Errorf("inspect --json prints the marks %+v", found.Marks)
	}
}
