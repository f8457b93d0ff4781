package layers

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"latentbeam/internal/system/testaid"
)

// TestSystems type-checks the program for systems on which no tests run. Of other modules it checks only the declarations, so that it takes
// a tenth of the time of a build. .ci/systems does build the program.
func TestSystems(t *testing.T) {
	testaid.Long(t, "it reads all modules twice")
	for _, system := range []string{"darwin/arm64", "windows/amd64"} {
		t.Run(strings.ReplaceAll(system, "/", "-"), func(t *testing.T) { checkTypes(t, system) })
	}
}

// listed is a package in the output of go list.
type listed struct {
	ImportPath, Dir string
	Standard        bool
	GoFiles         []string
	ImportMap       map[string]string
	Imports         []string
	Error           *struct{ Err string }
}

// checkTypes checks all packages of the program for a system, each after the packages that it imports.
func checkTypes(t *testing.T, system string) {
	goos, goarch, _ := strings.Cut(system, "/")
	list := exec.Command("go", "list", "-e", "-deps", "-json=ImportPath,Dir,Standard,GoFiles,ImportMap,Imports,Error",
		"latentbeam/cmd/latentbeam")
	list.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]*types.Package{"unsafe": types.Unsafe}
	sizes := types.SizesFor("gc", goarch)
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if p.Error != nil {
			t.Errorf("%s: %s", p.ImportPath, p.Error.Err)
		}
		if p.ImportPath != "unsafe" {
			known[p.ImportPath] = checkPackage(t, p, known, sizes)
		}
	}
	if len(known) < 100 {
		t.Errorf("only %d packages were found", len(known))
	}
}

// packages is the importer for the files of one package.
type packages struct {
	known map[string]*types.Package // packages that are checked already
	names map[string]string         // from import paths in the files to the packages' own paths, where they differ
}

func (p packages) Import(path string) (*types.Package, error) {
	if other, ok := p.names[path]; ok {
		path = other
	}
	if known := p.known[path]; known != nil {
		return known, nil
	}
	return nil, errors.New("it is not listed")
}

// checkPackage parses and checks a package, and returns it. Errors in other modules are ignored.
func checkPackage(t *testing.T, p listed, known map[string]*types.Package, sizes types.Sizes) *types.Package {
	ours := p.ImportPath == "latentbeam" || strings.HasPrefix(p.ImportPath, "latentbeam/")
	files := token.NewFileSet()
	parsed := make([]*ast.File, len(p.GoFiles))
	var reading sync.WaitGroup
	for i, name := range p.GoFiles {
		reading.Go(func() {
			file, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if parsed[i] = file; err != nil {
				t.Error(err)
			}
		})
	}
	reading.Wait()
	checks := types.Config{IgnoreFuncBodies: !ours, FakeImportC: true, Sizes: sizes, Importer: packages{known, p.ImportMap},
		Error: func(err error) {
			if ours {
				t.Error(err)
			}
		}}
	made, _ := checks.Check(p.ImportPath, files, parsed, nil)
	return made
}
