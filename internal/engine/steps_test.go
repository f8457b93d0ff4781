package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"latentbeam/internal/config"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/system/testaid"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// stepsOf are steps of a row, with a sampler that remembers so many arrays of this shape.
func stepsOf(key byte, memories int, shape ...int) stages.Saved {
	s := stages.Saved{Steps: stages.Steps{Done: 3, Sampler: "unipc/1", Latents: stages.NewArray(shape...)}}
	s.Key[0] = key
	for i := range s.Latents.Data {
		s.Latents.Data[i] = float32(i%251) / 16
	}
	for i := range memories {
		s.Memory = append(s.Memory, stages.Remembered{Name: fmt.Sprint("m", i), Values: s.Latents})
	}
	return s
}

// TestStepsFile: what is written is read again, for this row and this class alone; whatever byte of the file is
// another one, it is refused or means the same.
func TestStepsFile(t *testing.T) {
	row := stepsOf(1, 2, 1, 1, 2, 2)
	row.Clip, row.Clips = 1, []*stages.Array{stages.NewArray(1, 1, 2, 2)}
	row.Readings = map[string]string{"evaluations": "40", "computed_evaluations": "31"}
	var b bytes.Buffer
	if err := writeSteps(&b, &row, "fake"); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprint(printSteps(&row.Steps))
	if s, err := readSteps(b.Bytes(), row.Key, "fake"); err != nil || fmt.Sprint(printSteps(s)) != want {
		t.Fatalf("%+v, %v", s, err)
	}
	if _, err := readSteps(b.Bytes(), schemas.Key{2}, "fake"); err == nil || !strings.Contains(err.Error(), "its key is") {
		t.Errorf("another row: %v", err)
	}
	if _, err := readSteps(b.Bytes(), row.Key, "other"); err == nil || !strings.Contains(err.Error(), "its class is") {
		t.Errorf("another class: %v", err)
	}
	for i := range b.Bytes() {
		for _, bit := range []byte{1, 0x80} {
			data := bytes.Clone(b.Bytes())
			data[i] ^= bit
			if s, err := readSteps(data, row.Key, "fake"); err == nil && fmt.Sprint(printSteps(s)) != want {
				t.Fatalf("byte %d: other steps are taken", i)
			}
		}
		if _, err := readSteps(b.Bytes()[:i], row.Key, "fake"); err == nil {
			t.Fatalf("%d of %d bytes are taken", i, b.Len())
		}
	}
}

func printSteps(s *stages.Steps) (out []any) {
	out = append(out, s.Clip, s.Done, s.Sampler, *s.Latents, s.Readings)
	for _, m := range s.Memory {
		out = append(out, m.Name, *m.Values)
	}
	for _, c := range s.Clips {
		out = append(out, *c)
	}
	return out
}

// TestStepsGoWithTheirRow: steps are there until the ledger has the row's record, and no longer; what is left of rows
// that are settled goes at the end of a run.
func TestStepsGoWithTheirRow(t *testing.T) {
	e := newEngine(t, 1, step("model", fakeStage{}))
	e.Steps.SaveEvery(0)
	els := e.results(0, 3, 1)
	var rows []stages.Saved
	for _, el := range els {
		s := stepsOf(0, 1, 1, 1, 1, 1)
		s.Key = el.Key
		rows = append(rows, s)
	}
	e.Steps.save(t.Context(), rows)
	there := func(want int) {
		t.Helper()
		names, err := store.Names(t.Context(), e.Store, stepsFolder, store.Flat)
		if err != nil || len(names) != want {
			t.Errorf("%d files of steps, want %d: %v", len(names), want, err)
		}
	}
	there(3)
	c := e.Publisher(t.Context())
	if err := errors.Join(c.Add(&stages.Batch{Elements: els[:1]}), c.Close()); err != nil {
		t.Fatal(err)
	}
	there(2)
	c = e.Publisher(t.Context())
	e.Steps.record(els[1].Key, false) // as where the process that kept them has died
	if err := errors.Join(c.Add(&stages.Batch{Elements: els[1:2]}), c.Close()); err != nil {
		t.Fatal(err)
	}
	there(2)
	if err := e.Steps.Clean(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	there(1) // that of the row that is not done
	if err := e.Steps.Clean(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	there(0)
}

// TestSampledRowsKeepReadings: a row whose latents are whole and saved has the readings of its sampling in the next process too.
func TestSampledRowsKeepReadings(t *testing.T) {
	e := newEngine(t, 1, step("model", fakeStage{}))
	e.Steps.SaveEvery(0)
	el := e.results(0, 1, 1)[0]
	el.Latents = stages.NewArray(1, 1, 2, 2)
	el.Row.NumInferenceSteps = 4
	el.Read(map[string]string{"evaluations": "8", "computed_evaluations": "5"})
	e.Steps.retain([]*stages.Element{el})
	e.Steps.saveSampled(e.Steps.allSampled()[0])
	el.Readings, el.Latents = map[string]string{"prompt": "cut"}, nil
	want := map[string]string{"prompt": "cut", "evaluations": "8", "computed_evaluations": "5"}
	if left := e.Steps.resume(t.Context(), []*stages.Element{el}); len(left) != 0 || el.Latents == nil || !maps.Equal(el.Readings, want) {
		t.Errorf("%d rows are sampled again; the readings are %v, want %v", len(left), el.Readings, want)
	}
}

// TestStepsThatCannotBeKept: a full disk costs a word, once, and no row.
func TestStepsThatCannotBeKept(t *testing.T) {
	e := newEngine(t, 1, step("model", fakeStage{}))
	e.Steps.SaveEvery(time.Minute)
	log := testaid.Log(t)
	e.Store = readOnly{e.Store}
	for range 3 {
		e.Steps.save(t.Context(), []stages.Saved{stepsOf(1, 0, 1, 1, 1, 1)})
	}
	if n := strings.Count(log.String(), "cannot be saved"); n != 1 || e.Steps.has(schemas.Key{1}) {
		t.Errorf("told %d times:\n%s", n, log)
	}
}

// BenchmarkKeepSteps copies and writes the steps of videos of published sizes. Their work is the seconds of one step on one
// H100 (Wan: one RTX 4090), as the models' authors publish it. A sampling waits for the copy, and for a file that takes
// longer than the next step; %held is that part of the work where each step is saved (1step), and %usual its part by
// default. %beside is the time for the file, which is written beside the next step. docs/how.md has the figures.
func BenchmarkKeepSteps(b *testing.B) {
	for _, c := range []struct {
		name     string
		memories int
		shape    []int
		step     float64
	}{
		{"OpenSora-1.0-16x256x256", 0, []int{4, 16, 32, 32}, 5. / 100},
		{"OpenSora-1.2-360p-image", 0, []int{4, 1, 45, 80}, 3. / 30},
		{"OpenSora-1.2-360p-2s", 0, []int{4, 15, 45, 80}, 18. / 30},
		{"OpenSora-1.2-720p-16s", 0, []int{4, 120, 90, 160}, 547. / 30},
		{"OpenSoraPlan-1.2-720p-29", 0, []int{4, 8, 90, 160}, 420. / 100},
		{"OpenSoraPlan-1.2-720p-93", 0, []int{4, 24, 90, 160}, 3400. / 100},
		{"Wan-2.1-1.3B-480p-5s", 3, []int{16, 21, 60, 104}, 240. / 50},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkSaving(b, stepsOf(1, c.memories, c.shape...), c.step) })
	}
}

func benchmarkSaving(b *testing.B, row stages.Saved, work float64) {
	e := newEngine(b, 1, step("model", fakeStage{}))
	var copied, written time.Duration
	for b.Loop() {
		began := time.Now()
		latents := slices.Clone(row.Latents.Data)
		for i, m := range row.Memory {
			row.Memory[i].Values = &stages.Array{Shape: m.Values.Shape, Data: slices.Clone(m.Values.Data)}
		}
		row.Latents = &stages.Array{Shape: row.Latents.Shape, Data: latents}
		copied += time.Since(began)
		began = time.Now()
		e.Steps.save(b.Context(), []stages.Saved{row})
		written += time.Since(began)
	}
	each := func(d time.Duration) float64 { return d.Seconds() / float64(b.N) }
	held := each(copied) + max(0, each(written)-work)
	pause := max(config.DefaultInterval.Seconds(), work)
	b.SetBytes(int64(4 * len(row.Latents.Data) * (1 + len(row.Memory))))
	b.ReportMetric(100*held/work, "%held")
	b.ReportMetric(100*each(copied)/pause, "%usual")
	b.ReportMetric(100*each(written)/work, "%beside")
	b.ReportMetric(1000*each(written), "ms/file")
}

// readOnly is a store that takes nothing.
type readOnly struct{ store.Store }

func (readOnly) Replace(_ context.Context, name string, _ func(io.Writer) error) error {
	return fmt.Errorf("write %s: %w", name, fs.ErrPermission)
}
