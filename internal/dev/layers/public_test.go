package layers

import (
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// public are the packages that a program outside of this module imports to add its own stage, denoiser or autoencoder. Their exported
// declarations mention no type of another package of this module.
const public = "latentbeam latentbeam/schemas latentbeam/schemas/fault latentbeam/schemas/objects latentbeam/kernels latentbeam/stages " +
	"latentbeam/stages/cost latentbeam/stages/sequence latentbeam/stages/weights/safetensors latentbeam/stages/weights latentbeam/stages/nn " +
	"latentbeam/stages/diffuse/sampler latentbeam/stages/diffuse/dit latentbeam/stages/diffuse"

// inside are the packages outside of internal that are not public either, including the packages below them: parts of this program
// and code that its models share.
const inside = "cmd docs examples python pipelines runners transforms kernels/cpu kernels/cuda kernels/kerneltest stages/catalog stages/clip " +
	"stages/amt stages/diffuse/condition stages/diffuse/shares stages/exec stages/flow stages/guard stages/layout stages/musiq stages/nn/nntest stages/osplan stages/raft stages/rng " +
	"stages/score stages/stdit stages/t5 stages/vae stages/video stages/vit stages/wan stages/weights/checkpoint stages/weights/hub " +
	"stages/weights/gguf stages/weights/lora stages/weights/torchpickle testdata"

// TestPublicOrNot: every package outside of internal is in one of the lists public and inside.
func TestPublicOrNot(t *testing.T) {
	out, err := exec.Command("go", "list", "latentbeam/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range strings.Fields(string(out)) {
		name := strings.TrimPrefix(path, "latentbeam/")
		if strings.HasPrefix(name, "internal/") || slices.Contains(strings.Fields(public), path) {
			continue
		}
		below := func(room string) bool { return name == room || strings.HasPrefix(name, room+"/") }
		if !slices.ContainsFunc(strings.Fields(inside), below) {
			t.Errorf("%s is in neither list: is it public?", path)
		}
	}
}

// TestPublicSignatures: an exported declaration of a public package mentions only types of public packages.
func TestPublicSignatures(t *testing.T) {
	packages := strings.Fields(public)
	exports := exportData(t, packages)
	imp := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	for _, path := range packages {
		pkg, err := imp.Import(path)
		if err != nil {
			t.Fatal(err)
		}
		names := 0
		for _, name := range pkg.Scope().Names() {
			if obj := pkg.Scope().Lookup(name); obj.Exported() {
				names++
				for _, one := range hiddenTypes(obj) {
					t.Errorf("%s.%s mentions %s: make that package public, or move the type", path, name, one)
				}
			}
		}
		if names == 0 {
			t.Errorf("%s exports nothing", path)
		}
	}
}

// exportData returns the files with export data of packages and of everything that they import.
func exportData(t *testing.T, packages []string) map[string]string {
	t.Helper()
	args := append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}, packages...)
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v", strings.Join(args, " "), err)
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[path] = file
	}
	return files
}

// hidden reports whether a package of this module is not public.
func hidden(path string) bool {
	return strings.HasPrefix(path, "latentbeam/") && !slices.Contains(strings.Fields(public), path)
}

// hiddenTypes returns the types of packages that are not public in the exported fields, methods, parameters and results of obj, with
// the path to each of them.
func hiddenTypes(obj types.Object) (found []string) {
	seen := map[types.Type]bool{}
	var visit func(t types.Type, way string)
	members := func(n *types.Named, way string) {
		for m := range n.Methods() {
			if m.Exported() {
				visit(m.Signature(), way+"."+m.Name())
			}
		}
	}
	visit = func(t types.Type, way string) {
		if t == nil || seen[t] {
			return
		}
		seen[t] = true
		switch t := t.(type) {
		case *types.Alias:
			visit(types.Unalias(t), way)
		case *types.Named:
			if p := t.Obj().Pkg(); p != nil && hidden(p.Path()) {
				found = append(found, fmt.Sprintf("%s.%s (%s)", p.Path(), t.Obj().Name(), way))
				return
			} else if p != obj.Pkg() && way != obj.Name() {
				return // checked in its own package
			}
			for arg := range t.TypeArgs().Types() {
				visit(arg, way)
			}
			members(t, way)
			visit(t.Underlying(), way)
		case *types.Struct:
			for f := range t.Fields() {
				if f.Exported() {
					visit(f.Type(), way+"."+f.Name())
				}
			}
		case *types.Interface:
			for m := range t.Methods() {
				if m.Exported() {
					visit(m.Signature(), way+"."+m.Name())
				}
			}
		case *types.Signature:
			for _, list := range []*types.Tuple{t.Params(), t.Results()} {
				for v := range list.Variables() {
					visit(v.Type(), way)
				}
			}
		case *types.Map:
			visit(t.Key(), way)
			visit(t.Elem(), way)
		case interface{ Elem() types.Type }: // pointer, slice, array, channel
			visit(t.Elem(), way)
		}
	}
	visit(obj.Type(), obj.Name())
	slices.Sort(found)
	return slices.Compact(found)
}
