package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// answers is a shell script in place of a test program or of PyTorch. It answers the requests of the command. A case takes the seconds of the
// first %s, one after the other, of which the last one is repeated. A result has 16 bytes: those of the second %s, then float32 ones
// (bytes 0, 0, 128, 63).
const answers = `#!/bin/sh
set -- %s
while read -r word rest; do
	case $word in
	result) printf '%s\000\000\200\077\000\000\200\077\000\000\200\077\000\000\200\077' | head -c 16 > "$rest"; echo written ;;
	memory) echo memory 3145728 4194304 ;;
	class) echo class cuda/sm_90+wgmma ;;
	*) echo seconds "$1"; test $# = 1 || shift ;;
	esac
done
`

// bundle returns a folder with the scripts ours in place of the three test programs, and torch in place of Python.
func bundle(t *testing.T, ours, torch string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"stdit.test", "t5.test", "vae.test", "python"} {
		text := ours
		if name == "python" {
			text = torch
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// measure runs the command for one row of T5 and returns its table and the content of its file.
func measure(t *testing.T, dir string, args ...string) (table string, p report, err error) {
	t.Helper()
	var out, log strings.Builder
	path := filepath.Join(dir, "figures.json")
	args = append([]string{"-dir", dir, "-python", filepath.Join(dir, "python"), "-json", path, "-rounds", "3",
		"-only", "120 tokens"}, args...)
	err = command(args, &out, &log)
	data, readErr := os.ReadFile(path)
	if readErr != nil {
		t.Fatalf("%v; %v\n%s%s", readErr, err, &out, &log)
	}
	if err := json.Unmarshal(data, &p); err != nil {
		t.Fatal(err)
	}
	return out.String(), p, err
}

// TestBest: of five rounds, two warm up and the best of the other three (5, 4 and 6 ms) counts. The ratio is the time of PyTorch's faster mode,
// 6 ms, to ours.
func TestBest(t *testing.T) {
	dir := bundle(t, fmt.Sprintf(answers, "0.001 0.002 0.005 0.004 0.006", ""), fmt.Sprintf(answers, "0.006", ""))
	table, p, err := measure(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	f := p.Rows[0]
	if *f.Ours != 4 || *f.CublasLt != 4 || *f.Eager != 6 || *f.Compiled != 6 || *f.Ratio != 1.5 || *f.Difference != 0 ||
		f.Peak != 3<<20 || f.Planned != 4<<20 || f.Target != 2.75 || f.Class != "cuda/sm_90+wgmma" {
		t.Errorf("got figures %+v", f)
	}
	for _, want := range []string{"T5-v1.1-xxl, 120 tokens", "2.75", "4.00", "6.00", "1.50"} {
		if !strings.Contains(table, want) {
			t.Errorf("the table lacks %s:\n%s", want, table)
		}
	}
}

// TestFailures: if PyTorch does not run, only its columns are empty. If our program does not run, or results differ, the row fails.
func TestFailures(t *testing.T) {
	good := fmt.Sprintf(answers, "0.004", "")
	for name, c := range map[string]struct{ ours, torch, want string }{
		"no torch":     {good, "#!/bin/sh\nexit 1\n", ""},
		"ours":         {"#!/bin/sh\necho 'panic: no device'\n", good, "1 of 1 rows failed"},
		"not a number": {good, fmt.Sprintf(answers, "0.004", `\000\000\300\177`), "1 of 1 rows failed"},
		"wrong result": {good, fmt.Sprintf(answers, "0.004", `\000\000\200\100`), "1 of 1 rows failed"},
	} {
		t.Run(name, func(t *testing.T) {
			table, p, err := measure(t, bundle(t, c.ours, c.torch))
			if (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
				t.Errorf("got error %v, want %q", err, c.want)
			}
			if f := p.Rows[0]; len(f.Failures) == 0 || !strings.Contains(table, strings.Split(f.Failures[0], "\n")[0]) {
				t.Errorf("the failures %q are none, or not in the table:\n%s", f.Failures, table)
			}
		})
	}
}

// TestSmall: the times of reduced shapes are not compared with the theoretical minimum (floor) of the published shapes.
func TestSmall(t *testing.T) {
	good := fmt.Sprintf(answers, "0.004", "")
	table, p, err := measure(t, bundle(t, good, good), "-size", "small", "-cublaslt=false")
	if f := p.Rows[0]; err != nil || f.Floor != 0 || f.CublasLt != nil || !strings.Contains(table, "figures say nothing") {
		t.Errorf("got error %v, figures %+v; want no floor and no time of cublasLt\n%s", err, f, table)
	}
}
