package sets

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"latentbeam/internal/cluster"
	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/devices"
	"latentbeam/internal/engine"
	"latentbeam/internal/engine/keys"
	"latentbeam/internal/engine/memory"
	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/storage/store/dir"
	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/runners"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/stages/catalog"
	"latentbeam/stages/cost"
	"latentbeam/stages/layout"
	"latentbeam/testdata/tiny"
	"latentbeam/transforms"
)

// card is the memory of a device, which weights and tensors share.
type card struct {
	number int
	limit  int64

	mu      sync.Mutex
	held    int64          // bytes of weights
	copies  map[any][]byte // copies of the weights
	most    int64          // peak of the used bytes
	refills int
}

// onCard is a CPU backend whose memory is limited to its card.
type onCard struct {
	kernels.Backend
	*card
	live int64 // bytes of tensors
	err  error
	gone bool // another backend has replaced it
}

func (b *onCard) Device() string { return fmt.Sprint("card ", b.number) }

// taken updates the peak of the used bytes. It returns an error if they exceed the memory.
func (b *onCard) taken() error {
	b.most = max(b.most, b.held+b.live)
	if b.held+b.live > b.limit {
		return fault.OutOfMemory(fmt.Errorf("%d bytes of weights and %d of tensors in %d", b.held, b.live, b.limit))
	}
	return nil
}

func (b *onCard) Weights(dt kernels.DType, shape []int, data []byte) (kernels.Tensor, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held += int64(len(data))
	if err := b.taken(); err != nil {
		b.held -= int64(len(data))
		return kernels.Tensor{}, err
	}
	own := slices.Clone(data)
	t, err := b.Backend.Weights(dt, shape, own)
	b.Backend.Capabilities().Passing(t) // the CPU backend keeps no packed form of the weight
	b.copies[t.Buf] = own
	return t, err
}

func (b *onCard) Capabilities() kernels.Capabilities {
	return kernels.Capabilities{Refiller: b, Release: b.Release}
}

func (b *onCard) Refill(t kernels.Tensor, data func() []byte) (ready func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	own, ok := b.copies[t.Buf]
	if !ok || b.gone {
		panic("a weight or its backend is used that was given back")
	}
	b.refills++
	clear(own)
	return func() { copy(own, data()) }
}

func (b *onCard) Release(t kernels.Tensor) {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.copies[t.Buf]
	b.held -= int64(len(own))
	clear(own)
	delete(b.copies, t.Buf)
}

func (b *onCard) Alloc(dt kernels.DType, shape ...int) kernels.Tensor {
	t := b.Backend.Alloc(dt, shape...)
	b.live += int64(t.Len() * dt.Size())
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.taken(); err != nil && b.err == nil {
		b.err = err
	}
	return t
}

func (b *onCard) Scope() (end func()) {
	before, inner := b.live, b.Backend.Scope()
	return func() { b.live = before; inner() }
}

func (b *onCard) Wait() error {
	if b.err != nil {
		return b.err
	}
	return b.Backend.Wait()
}

func (b *onCard) Download(dst []float32, src kernels.Tensor) error {
	if b.err != nil {
		return b.err
	}
	return b.Backend.Download(dst, src)
}

// cards is a pool of devices with an onCard each. The cost model does not know their memory.
type cards struct {
	mu    sync.Mutex
	all   []*card
	free  []kernels.Backend
	again chan struct{}
}

// known is a pool of cards of which the cost model knows that each has its own memory, like GPUs.
type known struct {
	*cards
	held []int64 // reported sizes of weights, in order
}

func (p *known) Capabilities() devices.PoolCapabilities {
	card := layout.DeviceModel{Name: "card", Memory: 1 << 40, Rate: 1e12, Link: 1e9, Host: 1e9}
	return devices.PoolCapabilities{
		Layout: func() []layout.DeviceModel { return slices.Repeat([]layout.DeviceModel{card}, len(p.all)) },
		Weights: func(bytes int64) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.held = append(p.held, bytes)
		}}
}

// newCards returns a pool of n devices with a limit of memory each.
func newCards(n int, limit int64) *cards {
	p := &cards{again: make(chan struct{})}
	for i := range n {
		c := &card{number: i, limit: limit, copies: map[any][]byte{}}
		p.all = append(p.all, c)
		p.free = append(p.free, &onCard{Backend: cpu.New(1), card: c})
	}
	return p
}

func (p *cards) Size() int           { return len(p.all) }
func (p *cards) Class() string       { return cpu.New(1).Class() }
func (p *cards) Memory() cost.Memory { return cost.Memory{Target: 1 << 40, Limit: 1 << 40} }

func (p *cards) Speeds() []float64                      { return slices.Repeat([]float64{1}, len(p.all)) }
func (p *cards) Changed() <-chan struct{}               { return nil }
func (p *cards) Capabilities() devices.PoolCapabilities { return devices.PoolCapabilities{} }

// LeaseThese leases any devices, because all are equal.
func (p *cards) LeaseThese(ctx context.Context, devices []int) (*stages.Set, func(bool), error) {
	return p.LeaseSet(ctx, len(devices))
}

func (p *cards) LeaseSet(ctx context.Context, n int) (*stages.Set, func(bool), error) {
	for {
		p.mu.Lock()
		if len(p.free) >= n {
			set := &stages.Set{Devices: slices.Clone(p.free[:n]), Speeds: slices.Repeat([]float64{1}, n)}
			if n > 1 {
				set.Connect = func(context.Context) ([]kernels.Transport, error) { return cluster.Shared(n), nil }
			}
			mine := slices.Clone(set.Devices)
			p.free = slices.Clone(p.free[n:])
			p.mu.Unlock()
			return set, func(ok bool) { p.release(mine, ok) }, nil
		}
		again := p.again
		p.mu.Unlock()
		select {
		case <-again:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// release makes devices free again. If ok is false, new backends replace theirs.
func (p *cards) release(devices []kernels.Backend, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range devices {
		if !ok {
			d.(*onCard).gone = true
			d = &onCard{Backend: cpu.New(1), card: d.(*onCard).card}
		}
		p.free = append(p.free, d)
	}
	close(p.again)
	p.again = make(chan struct{})
}

// most returns the peak memory of a card and the number of weights that were streamed.
func (p *cards) most() (bytes int64, refills int) {
	for _, c := range p.all {
		bytes, refills = max(bytes, c.most), refills+c.refills
	}
	return bytes, refills
}

// onCards computes three rows from prompt to latents on a pool. It returns their records and the measured memory.
func onCards(t *testing.T, pool devices.Pool) (records []string, facts []memory.Fact) {
	t.Helper()
	names := []string{"encode_text", "denoise"}
	steps := jobtest.TinySteps(t, names...)
	out := filepath.Join(t.TempDir(), "out")
	dir, err := dir.Open(out)
	jobtest.Must(t, err)
	defer dir.Close()
	l, err := ledger.Open(t.Context(), dir)
	jobtest.Must(t, err)
	defer l.Close()
	guidance := 4.0
	e := engine.New(steps, pool)
	e.Store, e.Ledger, e.Schedule.MaxBatch, e.Recovery.Retries = dir, l, 2, 3
	e.Rules = keys.Rules{Input: stages.KindPrompt, Steps: steps, Class: pool.Class()}
	e.Keep = map[stages.Kind]bool{stages.KindLatents: true}
	e.Source = jobtest.RowsOf{{ID: "a", Prompt: "a red circle"}, {ID: "b", Prompt: "a blue square"}, {ID: "c", Prompt: "a line"}}
	e.Rules.Defaults = schemas.PromptRow{Height: 32, Width: 32, NumFrames: 4, FPS: 8, NumInferenceSteps: 2,
		GuidanceScale: &guidance, MaxSequenceLength: 16}
	jobtest.Must(t, e.Rules.Seal())
	spec := []byte(out)
	defer transforms.Register(spec, e)()
	runners.Init()
	jobtest.Must(t, e.Pass(t.Context(), func(ctx context.Context) error {
		return runners.All()[0].Run(ctx, runners.Launch{Pipeline: transforms.Pipeline(spec, names, false)})
	}))
	return jobtest.RecordTexts(t, out), e.Schedule.Learned.Facts()
}

// TestWeightsAreStreamedIfAnElementDoesNotFit: if one element does not fit into the memory of all devices together, the job starts to
// stream the weights of the current stage. The rows are done with equal results. If that is not enough, they fail.
func TestWeightsAreStreamedIfAnElementDoesNotFit(t *testing.T) {
	for _, n := range []int{1, 2} {
		large := newCards(n, 1<<40)
		want, facts := onCards(t, large)
		weights := large.all[0].held
		if len(facts) > 2 || slices.ContainsFunc(want, func(r string) bool { return strings.Contains(r, "failed") }) {
			t.Fatalf("%d cards with enough memory: got %s, %+v", n, want, facts)
		}
		for room, done := range map[int64]bool{
			weights + 20_000:  true, // there is no memory for an element beside the weights
			weights - 100_000: true, // there is not even memory for the weights
			weights / 3:       false,
		} {
			pool := newCards(n, room)
			got, facts := onCards(t, pool)
			most, refills := pool.most()
			if slices.Equal(got, want) != done || (refills > 0) != done {
				t.Errorf("%d cards of %d bytes: %d taken, %d refills:\n%s\nwant\n%s", n, room, most, refills,
					strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			denoise := slices.IndexFunc(facts, func(f memory.Fact) bool { return f.Stage == "denoise" })
			if done && (denoise < 0 || !facts[denoise].Alone) {
				t.Errorf("%d cards of %d bytes: the measurements for the next run lack the streaming: %+v", n, room, facts)
			}
			if !done && !slices.ContainsFunc(got, func(r string) bool { return strings.Contains(r, "bytes of weights") }) {
				t.Errorf("%d cards of %d bytes: no message says why:\n%s", n, room, strings.Join(got, "\n"))
			}
		}
	}
}

// TestBlocksAreStreamedToTheNewBackend: after a device was reset, blocks are streamed through its new backend, and not through the
// one that loaded the weights. No weights are in memory twice.
func TestBlocksAreStreamedToTheNewBackend(t *testing.T) {
	model, err := stages.EmbeddedModel("tiny", tiny.Files())
	jobtest.Must(t, err)
	open := func(name string) stages.Stage {
		spec, _ := stages.Find(catalog.All(), name)
		stage, err := spec.New(model, nil)
		jobtest.Must(t, err)
		return stage
	}
	guidance, seed := 4.0, int64(1)
	row := schemas.PromptRow{Prompt: "a red circle", MaxSequenceLength: 16, Height: 16, Width: 16, NumFrames: 2, FPS: 8,
		NumInferenceSteps: 2, GuidanceScale: &guidance, Seed: &seed}
	text := &stages.Element{Row: row}
	jobtest.Must(t, open("encode_text").Run(t.Context(), cpu.New(1), []*stages.Element{text}))
	stage, pool := open("denoise"), newCards(1, 1<<40)
	var first []float32
	var held int64
	for i, ok := range []bool{true, false, true, true} {
		if i == 1 {
			stage.Capabilities().Loading.Stream(0)
		}
		dev, release, err := devices.Lease(t.Context(), pool)
		jobtest.Must(t, err)
		e := &stages.Element{Row: row, Text: text.Text}
		jobtest.Must(t, stage.Run(t.Context(), dev, []*stages.Element{e}))
		release(ok)
		switch {
		case i == 0:
			first = e.Latents.Data
		case !slices.Equal(first, e.Latents.Data):
			t.Errorf("run %d: the results differ", i)
		case i == 1:
			held = pool.all[0].held
		case pool.all[0].held != held:
			t.Errorf("run %d: the card has %d bytes of weights, but had %d before", i, pool.all[0].held, held)
		}
	}
}

// TestWeightsAreStreamedOnOtherHosts: a worker process streams weights too if an element does not fit into its device's memory.
func TestWeightsAreStreamedOnOtherHosts(t *testing.T) {
	base := jobtest.NewJob(t, "id,prompt\na,a red circle moves left\n")
	const size = "output.write=[latents] defaults.height=32 defaults.width=32 defaults.num_frames=4 " +
		"defaults.max_sequence_length=16"
	base.Sets = strings.Fields(size)
	base.Stages = "[encode_text, denoise: {}]"
	base.MustRun(t)
	want := jobtest.MustRead(t, base.Out)
	token := jobtest.TokenFile(t, jobtest.WorkerToken)
	var weights int64
	for _, tight := range []bool{false, true} {
		limit := int64(1 << 40)
		if tight {
			limit = weights + 40_000
		}
		pool := &known{cards: newCards(1, limit)}
		node, err := cluster.Listen("127.0.0.1:0", cluster.Token(jobtest.WorkerToken))
		jobtest.Must(t, err)
		addr, stop := jobtest.WorkerOf(t, node, pool, nil)
		j := base.Elsewhere(t).OnHosts(token, "resources.workers=0 "+size, addr)
		j.Stages = base.Stages
		j.MustRun(t)
		stop()
		if wrong := want.Diff(jobtest.MustRead(t, j.Out)); wrong != nil {
			t.Errorf("tight memory: %v: the output differs:\n%s", tight, strings.Join(wrong, "\n"))
		}
		if _, refills := pool.most(); (refills > 0) != tight {
			t.Errorf("tight memory: %v: %d blocks were streamed", tight, refills)
		}
		for _, f := range jobtest.ReadRows[schemas.FailureRow](t, j.Out, "failures") {
			t.Error(f.Stage, f.Message)
		}
		if n := len(pool.held); n < 2 || tight != (pool.held[n-1] < slices.Max(pool.held)) {
			t.Errorf("tight memory: %v: the reported sizes of the weights are %v", tight, pool.held)
		}
		weights = pool.all[0].held
	}
}
