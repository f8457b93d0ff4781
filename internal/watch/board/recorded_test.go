package board

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// recorded is a run that was recorded in testdata.
type recorded struct {
	board  *Board
	events []recordedEvent // calls of the board, in the order of time
	end    float64         // second of the last publication
}

// recordedEvent is a call of the board at a second of the run.
type recordedEvent struct {
	at float64
	do func()
}

// replay reads a run. Each line has columns behind tabs, and its first column says what it is: the devices, the stages, a number of rows to
// expect, a planned time, a batch with its begin, its end and the ends of its steps, or a publication. The planned times are multiplied by
// wrong. pass moves the board's clock.
func replay(t *testing.T, name string, wrong float64) (r *recorded, pass func(time.Duration)) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".tsv"))
	if err != nil {
		t.Fatal(err)
	}
	number := func(s string) float64 {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	var devices, stages []string
	r = &recorded{}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimRight(line, "\n"), "\t")
		switch f[0] {
		case "devices":
			devices = f[1:]
		case "stages":
			stages = f[1:]
			r.board, pass = newBoard(stages, devices)
		case "expect":
			r.board.Expect([]ShapeWork{{f[1], int64(number(f[2])), 1}})
		case "foresee":
			r.board.Foresee([]Foreseen{{f[1], f[2], wrong * number(f[3])}})
		case "work":
			var b *Batch
			on, steps := strings.Split(f[6], ","), strings.Fields(f[7])
			r.add(number(f[1]), func() { b = r.board.Work(f[3], f[4], int(number(f[5])), nil, on) })
			for i, s := range steps {
				r.add(number(s), func() { b.Step(i+1, len(steps)) })
			}
			r.add(number(f[2]), func() { b.Finish(nil) })
		case "publish":
			var began time.Time
			rows := int(number(f[4]))
			r.add(number(f[1]), func() { began = r.board.now() })
			r.add(number(f[2]), func() {
				for range rows {
					r.board.Settled(f[3], "", "")
				}
				r.board.Published(began, rows)
			})
			r.end = max(r.end, number(f[2]))
		}
	}
	slices.SortStableFunc(r.events, func(a, b recordedEvent) int { return cmp.Compare(a.at, b.at) })
	return r, pass
}

// add adds a call at a second of the run.
func (r *recorded) add(at float64, do func()) { r.events = append(r.events, recordedEvent{at, do}) }

// TestETAOfRecordedRuns: after the first tenth of a run, the ETA is between half and twice the time that the run then still takes, give or
// take a fiftieth of the run. The runs are the demonstration, a precompute job, and a job whose decoder takes longer than its denoiser, some
// of them on two devices. The planned times are right, a quarter too short, or a quarter too long.
func TestETAOfRecordedRuns(t *testing.T) {
	for _, name := range []string{"demo", "demo_two_devices", "precompute", "slow_vae", "slow_vae_two_devices"} {
		for _, wrong := range []float64{0.75, 1, 1.25} {
			r, pass := replay(t, name, wrong)
			now, next, begin := 0.0, 0, r.events[0].at // next is an index of r.events
			span := r.end - begin
			for i := 10; i < 100; i++ {
				to := begin + span*float64(i)/100
				for ; next < len(r.events) && r.events[next].at <= to; next++ {
					pass(time.Duration((r.events[next].at - now) * float64(time.Second)))
					now = r.events[next].at
					r.events[next].do()
				}
				pass(time.Duration((to - now) * float64(time.Second)))
				now = to
				rest, eta := r.end-now, r.board.Facts().ETA
				if eta < rest/2-span/50 || eta > 2*rest+span/50 {
					t.Errorf("%s, plan times %.2f, after %d %%: ETA %.2f s, the rest takes %.2f s", name, wrong, i, eta, rest)
				}
			}
		}
	}
}
