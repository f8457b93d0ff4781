package diffuse

import (
	"context"
	"slices"
	"testing"
	"time"

	"latentbeam/internal/cluster"
	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/stages"
	"latentbeam/stages/nn"
	"latentbeam/stages/sequence"
)

// TestMutants adds known mistakes to sequence parallelism and checks that the digest finds each of them: a test of the tests
// in network_test.go. The mistakes in the attention itself are tested in nn.
func TestMutants(t *testing.T) {
	s := plainStage(t, nil)
	one := batchOf(2, 33, 4)
	if err := s.Run(t.Context(), cpu.New(1), one); err != nil {
		t.Fatal(err)
	}
	want := digest(t, one)
	for name, mistake := range map[string]func(j *job, rank int){
		"none":           func(*job, int) {},
		"per-rank noise": func(j *job, rank int) { j.batch = withSeeds(j.batch, int64(rank)) },
		"other positions on every rank": func(j *job, rank int) {
			j.Sharded = plainStage(t, nil).Sharded
			j.Config.(*plain).Scale += float64(rank) // positions in space depend on the rank
		},
	} {
		batch := batchOf(2, 33, 4)
		j, err := s.newJob(batch, 0)
		if err != nil {
			t.Fatal(err)
		}
		run := func(ctx context.Context, rank int, tr kernels.Transport) error {
			be, mine, own := cpu.New(1), *j, *s
			mine.stage, mine.batch = &own, slices.Clone(j.batch)
			mistake(&mine, rank)
			place := &nn.GridRank{Dev: be, Sequence: kernels.NewGroup(ctx, tr, be, time.Minute)}
			return maker{stage: &own, dev: be, place: place, speeds: sequence.Equal(3)}.sample(ctx, &mine)
		}
		if err := kernels.RunRanks(t.Context(), cluster.Shared(3), time.Second, run); err != nil {
			t.Fatal(err)
		}
		for i, e := range j.batch {
			if e.Latents == nil { // rank 0 had elements of its own
				t.Fatalf("%s: element %d has no latents", name, i)
			}
		}
		if got := digest(t, batch); (got == want) != (name == "none") {
			t.Errorf("%s: the digest is right: %v", name, got == want)
		}
	}
}

// withSeeds gives elements other seeds; rank 0 keeps them.
func withSeeds(batch []*stages.Element, add int64) []*stages.Element {
	if add == 0 {
		return batch
	}
	var out []*stages.Element
	for _, e := range batch {
		seed, other := *e.Row.Seed+add, *e
		other.Row.Seed = &seed
		out = append(out, &other)
	}
	return out
}
