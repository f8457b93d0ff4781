package layers

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// floor is one level of the house, ground floor first. A package may import packages of lower floors
// only; packages of one floor are neighbours and never import each other. External lists the modules
// that a floor, and every floor above it, may use.
type floor struct {
	packages string
	external string
}

// floors is the house plan. Mend the import, not the plan.
var floors = []floor{
	{"python internal/browser internal/proofs internal/release internal/media/h264 internal/media/resize internal/report/spelling internal/aspect internal/mapfile internal/temporary internal/digests internal/torchpickle/torchtest internal/testaid " +
		"kernels/cuda/library testdata/tiny internal/hub/hubtest",
		"golang.org/x/sys"},
	{"schemas internal/limits internal/media/mp4 docs/pictures kernels stages/safetensors internal/torchpickle", "github.com/Eyevinn/mp4ff"},
	{"internal/config/document stages/sequence internal/names internal/same internal/rng schemas/fault internal/checkpoint internal/sentencepiece " +
		"internal/ftfy internal/media internal/report/looks internal/layers internal/layers/rooms kernels/cuda/cublaslt kernels/cuda/driver kernels/cuda/kern " +
		"kernels/cuda/nccl kernels/cuda/gpu/timings",
		"github.com/goccy/go-yaml golang.org/x/text golang.org/x/sync golang.org/x/net github.com/clipperhouse/uax29 gorgonia.org/cu github.com/klauspost/compress " +
			"google.golang.org/protobuf"},
	{"internal/config stages/cost stages/t5/clean internal/plan/weights internal/store internal/measure " +
		"stages/lora internal/hub internal/gallery internal/gpu kernels/cpu kernels/cuda kernels/kerneltest",
		"github.com/gofrs/flock github.com/NVIDIA/go-nvml github.com/google/uuid"},
	{"stages stages/exec/exectest internal/transport internal/witness internal/plan internal/clips internal/plan/layout internal/gpu/gputest internal/store/dir internal/store/storetest internal/store/bucket", ""},
	{"stages/weight internal/store/gcs internal/store/s3 internal/store/web internal/store/bucket/buckettest internal/store/dir/dirtest", "cloud.google.com/go/storage google.golang.org/api " +
		"github.com/minio/minio-go github.com/fsouza/fake-gcs-server github.com/johannesboyne/gofakes3"},
	{"internal/store/open internal/ledger internal/doctor stages/nn stages/sampler", ""},
	{"stages/vae/posterior stages/vae/stream stages/dit internal/engine/coder internal/cluster internal/lend internal/engine/memory internal/runs internal/location internal/jobfile", ""},
	{"internal/engine/keys stages/dit/shares stages/condition stages/vae/causal stages/vae/kl stages/vae/opensora13 stages/vae/temporal stages/vae/wan stages/vae/wf stages/footage internal/devices internal/devices/gpus internal/engine/schedule internal/observe internal/progress internal/table/pages internal/table/write internal/table/tabletest", "github.com/vbauerster/mpb github.com/parquet-go/parquet-go"},
	{"stages/nn/nntest stages/diffuse stages/quality stages/vae/autoencoder internal/engine/recovery internal/logs internal/metrics internal/trace internal/hooks internal/table/typed internal/report/columns internal/report/named internal/cli/terminal", "github.com/prometheus/client_golang go.opentelemetry.io/otel go.opentelemetry.io/proto/otlp"},
	{"internal/runpage stages/t5 stages/stdit stages/wan stages/osplan stages/clip stages/vae stages/guard stages/exec stages/video internal/engine", ""},
	{"stages/catalog internal/table/read", ""},
	{"internal/report internal/engine/host internal/engine/simulator pipelines/input pipelines/hardware pipelines/doubts", ""},
	{"transforms internal/audit internal/export pipelines/worker pipelines/reuse pipelines/forecast", "github.com/apache/beam"},
	{"runners internal/cli/models internal/cli/outputs pipelines/explain", "google.golang.org/grpc github.com/spf13/cobra"},
	{"pipelines/spread", ""},
	{"pipelines", ""},
	{"internal/cli", ""},
	{". internal/reference", ""}, // Main
	{"cmd/latentbeam internal/cluster/program", ""},
}

// testExternal is what tests of any floor may import beside what their code may.
const testExternal = "latentbeam/kernels/kerneltest latentbeam/stages/nn/nntest " +
	"latentbeam/internal/torchpickle/torchtest latentbeam/internal/gpu/gputest latentbeam/internal/testaid " +
	"latentbeam/internal/store/storetest latentbeam/internal/table/tabletest latentbeam/internal/store/bucket/buckettest latentbeam/stages/exec/exectest"

type pkg struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

func TestLayers(t *testing.T) {
	height := map[string]int{}
	for i, f := range floors {
		for _, p := range strings.Fields(f.packages) {
			height[p] = i
		}
	}
	edges := 0
	for _, build := range []struct{ tags, cgo string }{{"", "0"}, {"cuda", "1"}} {
		edges += check(t, height, build.tags, build.cgo)
	}
	t.Logf("%d packages, %d edges", len(height), edges)
}

// check looks at every import of the module as it is built with these tags, and returns how many there are.
func check(t *testing.T, height map[string]int, tags, cgo string) (edges int) {
	cmd := exec.Command("go", "list", "-tags", tags, "-json=ImportPath,Imports,TestImports,XTestImports", "latentbeam/...")
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list -tags %q: %v", tags, err)
	}
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p pkg
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		from := room(p.ImportPath)
		h, ok := height[from]
		if !ok {
			t.Errorf("%s has no floor: give it one in the house plan in this file", from)
			continue
		}
		for _, imp := range p.Imports {
			edges++
			if why := forbidden(height, h, imp); why != "" {
				t.Errorf("%s (floor %d) must not import %s: %s", from, h, imp, why)
			}
		}
		for _, imp := range slices.Concat(p.TestImports, p.XTestImports) {
			if to := room(imp); to == from || slices.Contains(strings.Fields(testExternal), imp) {
				continue
			}
			if why := forbidden(height, h, imp); why != "" {
				t.Errorf("the tests of %s (floor %d) must not import %s: %s", from, h, imp, why)
			}
		}
	}
	return edges
}

// TestBeamStaysAbove: the rooms that run batches know no Beam, so that it can be replaced by editing transforms and
// runners.
func TestBeamStaysAbove(t *testing.T) {
	const beam = "github.com/apache/beam/sdks/v2/go/pkg/beam"
	for i, f := range floors {
		above := slices.Contains(strings.Fields(f.packages), "transforms")
		if why := forbidden(nil, i, beam); (why == "") != above {
			t.Errorf("floor %d, %s: %q is said of Beam", i, f.packages, why)
		}
		if above {
			return // the floors above start it
		}
	}
}

// room is the path of a package inside the module.
func room(importPath string) string {
	if importPath == "latentbeam" {
		return "."
	}
	return strings.TrimPrefix(importPath, "latentbeam/")
}

// forbidden says why a package on floor h may not import imp, or "".
func forbidden(height map[string]int, h int, imp string) string {
	if imp == "latentbeam" || strings.HasPrefix(imp, "latentbeam/") {
		to, ok := height[room(imp)]
		switch {
		case !ok:
			return "it has no floor"
		case to == h:
			return "neighbours do not import each other"
		case to > h:
			return fmt.Sprintf("it is above, on floor %d", to)
		}
		return ""
	}
	if first, _, _ := strings.Cut(imp, "/"); !strings.Contains(first, ".") {
		return "" // the standard library
	}
	for _, f := range floors[:h+1] {
		for _, m := range strings.Fields(f.external) {
			if imp == m || strings.HasPrefix(imp, m+"/") {
				return ""
			}
		}
	}
	return "that module enters the house on a higher floor, or not at all"
}

// TestArchitecture: the table of floors in ARCHITECTURE.md is the house plan.
func TestArchitecture(t *testing.T) {
	text, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range floors {
		_, row, found := strings.Cut(string(text), fmt.Sprintf("\n| %d | ", i))
		if !found {
			t.Errorf("ARCHITECTURE.md has no floor %d", i)
			continue
		}
		row, _, _ = strings.Cut(row, "\n")
		var rooms []string
		for j, part := range strings.Split(row, "`") {
			if j%2 == 1 {
				rooms = append(rooms, part)
			}
		}
		want := strings.Fields(f.packages)
		slices.Sort(rooms)
		slices.Sort(want)
		if !slices.Equal(rooms, want) {
			t.Errorf("floor %d in ARCHITECTURE.md has %v, in the house plan %v: write the same in both", i, rooms, want)
		}
	}
}
