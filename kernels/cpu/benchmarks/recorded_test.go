package benchmarks

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/perf/benchfmt"
)

// TestRecorded reads every recorded file as benchstat does. Each result has a machine, a commit, a date and units that README.md explains. The
// names of results of kernels and blocks say by /impl= which program computed them.
func TestRecorded(t *testing.T) {
	units := map[string]bool{"sec/op": true, "cpu-sec/op": true, "GFLOP/s": true, "GB/s": true, "%peak": true, "apart": true,
		"frames/s": true, "B/op": true, "allocs/op": true, "B/s": true}
	files, err := filepath.Glob("*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("recorded files %v, error %v", files, err)
	}
	for _, path := range files {
		t.Run(path, func(t *testing.T) {
			file, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			results, date := 0, ""
			r := benchfmt.NewReader(file, path)
			for r.Scan() {
				switch rec := r.Result().(type) {
				case *benchfmt.SyntaxError:
					t.Error(rec)
				case *benchfmt.Result:
					results, date = results+1, rec.GetConfig("date")
					check(t, rec, units)
				}
			}
			if err := r.Err(); err != nil || results == 0 {
				t.Errorf("the file has %d results, error %v", results, err)
			}
			if !strings.HasSuffix(path, "-"+date+".txt") {
				t.Errorf("the file name does not end with the date of its results, %s", date)
			}
		})
	}
}

// check checks one result.
func check(t *testing.T, r *benchfmt.Result, units map[string]bool) {
	t.Helper()
	for _, key := range []string{"machine", "commit", "date", "pkg"} {
		if r.GetConfig(key) == "" {
			t.Errorf("%s: there is no line %q before it", r.Name.Full(), key+":")
		}
	}
	kind := string(r.Name.Base())
	if compared := kind == "Kernel" || kind == "Block"; compared && !strings.Contains(r.Name.String(), "/impl=") {
		t.Errorf("%s: no /impl=", r.Name.Full())
	}
	for _, v := range r.Values {
		if !units[v.Unit] || !(v.Value >= 0) {
			t.Errorf("%s: %g %s is negative or has an unknown unit", r.Name.Full(), v.Value, v.Unit)
		}
	}
}

// TestBenchstat: the version of benchstat in go.mod makes tables of the files, with a column for each program that computed a block.
func TestBenchstat(t *testing.T) {
	for path, columns := range map[string][]string{
		"amd-zen5-2026-11-24.txt":  {"latentbeam", "torch", "torch-compile", "openvino"},
		"intel-amx-2026-11-23.txt": {"latentbeam", "torch", "torch-compile", "openvino"},
	} {
		out, err := exec.Command("go", "tool", "benchstat", "-filter", ".name:Block", "-col", "/impl", "-format", "csv", path).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", path, err, out)
		}
		found := map[string]bool{}
		for line := range strings.Lines(string(out)) {
			for _, cell := range strings.Split(strings.TrimSpace(line), ",") {
				found[cell] = true
			}
		}
		for _, column := range columns {
			if !found[column] {
				t.Errorf("%s: no column %s in\n%s", path, column, out)
			}
		}
	}
}
