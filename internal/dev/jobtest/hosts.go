package jobtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"latentbeam/internal/cluster"
	"latentbeam/internal/devices"
	"latentbeam/pipelines/remote"
	"latentbeam/stages"
	"latentbeam/stages/catalog"
)

// WantText fails the test unless err contains all given texts.
func WantText(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v, want %q", err, part)
		}
	}
}

// SetTable has 5 frames of 6 patches and 2 of 1, rows with and without guidance, and a row alone.
const SetTable = `id,prompt,width,height,num_frames,guidance_scale
a,a red circle moves left,48,32,5,
b,a blue square moves up,48,32,5,
c,a green triangle,48,32,5,1
d,a yellow circle,,,,
`

// StartWorker starts a worker in this process and returns its address. It ends when the test ends or stop is called. specs replace
// the stages of the catalog.
func StartWorker(t *testing.T, token string, devices int, specs []stages.Spec) (addr string, stop func()) {
	t.Helper()
	known, err := cluster.ReadToken(token)
	Must(t, err)
	return WorkerWith(t, known, devices, 0, specs)
}

// WorkerWith is StartWorker with a limit on the memory for batches on each device, in bytes; 0: no limit.
func WorkerWith(t *testing.T, token cluster.Token, count int, memory int64, specs []stages.Spec) (addr string,
	stop func()) {
	t.Helper()
	node, err := cluster.Listen("127.0.0.1:0", token)
	Must(t, err)
	local, err := devices.NewCPU(count, 1, memory)
	Must(t, err)
	return WorkerOf(t, node, local, specs)
}

// WorkerOf is StartWorker with given devices.
func WorkerOf(t *testing.T, node *cluster.Node, local devices.Pool, specs []stages.Spec) (addr string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	w := remote.Worker{Node: node, Devices: local, Specs: append(slices.Clone(specs), catalog.All()...)}
	go func() { done <- w.Serve(ctx) }()
	ended := false
	stop = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the worker ended with %v", err)
		}
		node.Close()
	}
	t.Cleanup(stop)
	return node.Addr(), stop
}

// TokenFile writes a token to a file and returns its path.
func TokenFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	Must(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// WorkerToken is a token for StartWorker and OnHosts.
const WorkerToken = "a secret of the tests"

// OnHosts makes the job use workers at the given addresses.
func (j Job) OnHosts(token string, sets string, addrs ...string) Job {
	j.Sets = append(strings.Fields(sets), "resources.threads=1", fmt.Sprintf(`resources.hosts=["%s"]`, strings.Join(addrs, `","`)),
		fmt.Sprintf("resources.token_file=%q", token))
	j.Stages = "[encode_text, denoise: {}, decode_vae, guard, encode_video]"
	return j
}

// Denoiser returns the spec of the denoiser with its stage wrapped by around.
func Denoiser(around func(s stages.Stage) stages.Stage) stages.Spec {
	spec, _ := stages.Find(catalog.All(), "denoise")
	open := spec.New
	spec.New = func(m *stages.Model, o stages.Options) (stages.Stage, error) {
		s, err := open(m, o)
		if err != nil {
			return nil, err
		}
		return around(s), nil
	}
	return spec
}
