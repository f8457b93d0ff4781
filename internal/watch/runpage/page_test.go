package runpage

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"latentbeam/internal/watch/board"
)

// TestPage: the page of a run shows times, memory, failures and kernels, escapes text, and has no script and no link to other sites.
func TestPage(t *testing.T) {
	at := time.Unix(0, 0)
	var tally Tally
	work := func(stage string, took time.Duration, memory []int64, devices ...string) {
		tally.Sink().Record(board.Span{Kind: board.Work, Stage: stage, Shape: "64x64x16", Count: 2, Devices: devices,
			Memory: memory, Begin: at, End: at.Add(took)})
	}
	work("denoise", 3*time.Second, []int64{5 << 20, 7 << 20}, "cpu:0", "cpu:1")
	work("denoise", time.Second, []int64{6 << 20}, "cpu:0")
	work("decode_vae", time.Second, []int64{9 << 20}, "cpu:1")
	tally.Sink().Record(board.Span{Kind: board.Wait, Begin: at, End: at.Add(2 * time.Second)})
	r := &Run{Title: "a <b>", Stages: []string{"denoise", "decode_vae"}, Elapsed: 10 * time.Second, Tally: &tally,
		Stage:    []StageTime{{"denoise", 4 * time.Second, 3 << 20, false}, {"decode_vae", time.Second, 0, false}, {"decode", 2 * time.Second, 0, true}},
		Expected: []Expectation{{"64x64x16", 5 * time.Second, 10 * time.Second}},
		Memory:   []MemoryUse{{"denoise", "64x64x16", 1 << 20, 2 << 20, 1}},
		Failures: []Failures{{"row", "read", `seed "<x>"`, 3}}, Kernels: []Kernel{{"linear", "denoise", 7, time.Second, 12.5, 0}}}
	var b bytes.Buffer
	if err := Write(&b, r); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{"a &lt;b&gt;", "4.0 s, 80 %", "2.0 s, beside", "8.0 s, 4 rows", "4.0 s, 40 % busy", "waited for devices for 2.0 s",
		"<td>2.00</td>", "3.0 MiB &#43; 7.0 MiB", "9.0 MiB, decode_vae", "6.0 MiB, denoise", "seed &#34;&lt;x&gt;&#34;", "<td>12.5</td>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(page, "<script") || strings.Contains(page, "http:") {
		t.Error("the page has a script or a link to another site")
	}
}

// TestTallyIsBounded: a tally of 10,000 shapes has at most maxCells of them and one cell for all others. The sum of its times is complete.
func TestTallyIsBounded(t *testing.T) {
	var tally Tally
	for i := range 10_000 {
		tally.Sink().Record(board.Span{Kind: board.Work, Stage: "denoise", Shape: fmt.Sprint(i), Count: 1,
			Devices: []string{"cpu:0"}, End: time.Time{}.Add(time.Second)})
	}
	shapes, devices, _ := tally.Cells()
	var sum time.Duration
	for _, c := range shapes {
		sum += c.Busy
	}
	if len(shapes) != maxCells+1 || sum != 10_000*time.Second || len(devices) != 1 || devices[0].Batches != 10_000 {
		t.Errorf("got %d shapes with %v in all, devices %+v; want %d shapes with %v, 10000 batches on one device", len(shapes), sum, devices,
			maxCells+1, 10_000*time.Second)
	}
}
