package pipelines_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// TestMemoryOfTheLastRun: a run starts with the memory measurements of the last run on its output, and reports them
// in its summary. Tables and keys do not depend on them.
func TestMemoryOfTheLastRun(t *testing.T) {
	var mu sync.Mutex
	var tried []int
	tight := jobtest.Passive("tight", func(_ context.Context, batch []*stages.Element) error {
		mu.Lock()
		defer mu.Unlock()
		if tried = append(tried, len(batch)); len(batch) > 2 {
			return fault.OutOfMemory(fmt.Errorf("%d elements do not fit", len(batch)))
		}
		return nil
	})
	table := func(first int) string {
		rows := "prompt\n"
		for i := range 6 {
			rows += fmt.Sprint("a red circle ", first+i, "\n")
		}
		return rows
	}
	j := jobtest.NewJob(t, table(0))
	j.Stages = "[toy, tight]"
	j.Specs = jobtest.Specs(jobtest.ToySpec(), tight)
	j.Sets = []string{"resources.memory=1GiB", "resources.batch_size=6", "output.write=[latents]"}
	j.MustRun(t)
	if fmt.Sprint(tried) != "[6 3 1 1 1 3 1 1 1]" && fmt.Sprint(tried) != "[6 3 1 1 1 1 1 1]" {
		t.Errorf("the first run tried batches of %v", tried)
	}
	summary, err := os.ReadFile(filepath.Join(j.Out, "summary.json"))
	if err != nil || !strings.Contains(string(summary), `"out_of_memory": `) {
		t.Errorf("the summary has no measurements: %s, %v", summary, err)
	}
	if err := os.WriteFile(j.Prompts, []byte(table(6)), 0o644); err != nil {
		t.Fatal(err)
	}
	tried = nil
	j.MustRun(t)
	for _, n := range tried {
		if n > 1 {
			t.Errorf("the next run tried batches of %v", tried)
		}
	}
	if summary, err = os.ReadFile(filepath.Join(j.Out, "summary.json")); err != nil {
		t.Fatal(err)
	}
	other := strings.Replace(string(summary), `"class": "cpu/`, `"class": "cuda/`, 1)
	if err := os.WriteFile(filepath.Join(j.Out, "summary.json"), []byte(other), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(j.Prompts, []byte(table(12)), 0o644); err != nil {
		t.Fatal(err)
	}
	tried = nil
	if j.MustRun(t); len(tried) == 0 || tried[0] != 6 {
		t.Errorf("after a run in another class, the next run tried batches of %v", tried)
	}
	if err := os.WriteFile(filepath.Join(j.Out, "summary.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Open(); err != nil { // measurements that cannot be read are ignored
		t.Errorf("with a broken summary: %v", err)
	}
}
