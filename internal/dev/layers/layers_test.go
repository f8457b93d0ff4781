package layers

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// floors are the layers of the module, lowest first, each with its folders. A package may import packages of its own folder and of
// lower layers. Folders of the same layer must not import each other. All may import embedded data (python, testdata/tiny).
var floors = []string{
	"schemas",
	"kernels internal/system",
	"internal/media internal/cluster",
	"internal/config",
	"internal/storage",
	"stages internal/table runners",
	"internal/devices internal/results internal/watch",
	"internal/engine",
	"transforms",
	"pipelines",
	"internal/cli",
	".",
	"cmd",
}

// folder returns the folder of a package: the first element of its path, or the first two under internal. It returns "" for packages
// without a layer: developers' tools, documents and embedded data.
func folder(path string) string {
	parts := strings.Split(strings.TrimPrefix(strings.TrimPrefix(path, "latentbeam"), "/"), "/")
	switch {
	case parts[0] == "":
		return "."
	case parts[0] == "docs" || parts[0] == "python" || parts[0] == "testdata" || parts[0] == "examples":
		return ""
	case parts[0] != "internal":
		return parts[0]
	case parts[1] == "dev":
		return ""
	}
	return "internal/" + parts[1]
}

// floor returns the index of a folder's layer, or -1.
func floor(folder string) int {
	return slices.IndexFunc(floors, func(f string) bool { return slices.Contains(strings.Fields(f), folder) })
}

// TestArrowsPointDown: no package imports a package of its own or of a higher layer, in a build with prism and in one with CUDA. Packages of
// one folder may import each other.
func TestArrowsPointDown(t *testing.T) {
	for _, build := range []struct{ tags, cgo string }{{"prism", "0"}, {"cuda", "1"}} {
		cmd := exec.Command("go", "list", "-tags", build.tags, "-json=ImportPath,Imports", "latentbeam/...")
		cmd.Env = append(os.Environ(), "CGO_ENABLED="+build.cgo)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go list -tags %s: %v", build.tags, err)
		}
		arrows := 0
		for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
			var p struct {
				ImportPath string
				Imports    []string
			}
			if err := dec.Decode(&p); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			from := folder(p.ImportPath)
			if from == "" {
				continue
			}
			if floor(from) < 0 {
				t.Errorf("%s is in none of the folders %q", p.ImportPath, floors)
				continue
			}
			for _, imp := range p.Imports {
				if imp != "latentbeam" && !strings.HasPrefix(imp, "latentbeam/") {
					continue
				}
				to := folder(imp)
				if to == "" && !strings.HasPrefix(imp, "latentbeam/internal/dev/") || to == from {
					continue
				}
				arrows++
				if to == "" || floor(to) >= floor(from) {
					t.Errorf("%s imports %s, whose layer is not lower (see floors)", p.ImportPath, imp)
				}
			}
		}
		if arrows < 100 {
			t.Errorf("with tags %s the test has seen only %d imports between folders, too few to be all", build.tags, arrows)
		}
	}
}
