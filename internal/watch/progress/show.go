package progress

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"latentbeam/internal/watch/logs"
	"latentbeam/internal/watch/runfiles"
)

const (
	barEvery   = 200 * time.Millisecond // between two updates of the bar
	pollEvery  = time.Second            // between two reads of the facts without a terminal
	firstLine  = 5 * time.Second        // until the first line without a terminal
	linesEvery = 30 * time.Second       // between two lines without a terminal
)

// Display shows the progress of a run until Stop. On a terminal it shows a bar with lines below it. Elsewhere it prints a line
// every 30 s and for each finished percent.
type Display struct {
	w       io.Writer
	facts   func() runfiles.Facts
	print   func(runfiles.Facts)
	quit    chan struct{}
	stopped sync.WaitGroup
	once    sync.Once
}

// Show starts a display on w. On a terminal it calls over with the writer through which other text must be written while the bar is
// shown, and with nil at the end.
func Show(w io.Writer, terminal bool, facts func() runfiles.Facts, over func(io.Writer)) *Display {
	d := &Display{w: w, facts: facts, quit: make(chan struct{})}
	d.print = d.line
	if terminal {
		d.stopped.Go(func() { d.bar(over) })
	} else {
		d.stopped.Go(d.lines)
	}
	return d
}

// Log starts a display that calls print with the facts whenever Show would print a line.
func Log(facts func() runfiles.Facts, print func(runfiles.Facts)) *Display {
	d := &Display{facts: facts, print: print, quit: make(chan struct{})}
	d.stopped.Go(d.lines)
	return d
}

// Stop ends the display. It does nothing for nil.
func (d *Display) Stop() {
	if d == nil {
		return
	}
	d.once.Do(func() { close(d.quit) })
	d.stopped.Wait()
}

// bar shows a bar with lines below it.
func (d *Display) bar(over func(io.Writer)) {
	var mu sync.Mutex
	now := d.facts()
	latest := func() runfiles.Facts {
		mu.Lock()
		defer mu.Unlock()
		return now
	}
	extend := mpb.BarFillerFunc(func(w io.Writer, s decor.Statistics) error {
		for _, line := range Lines(latest(), time.Now()) {
			fmt.Fprintf(w, "  %s\n", cut(logs.Visible(line), s.AvailableWidth-2))
		}
		return nil
	})
	text := func(format func(runfiles.Facts) string) decor.Decorator {
		return decor.Any(func(decor.Statistics) string { return format(latest()) })
	}
	container := mpb.New(mpb.WithOutput(d.w), mpb.WithWidth(60), mpb.WithRefreshRate(barEvery), mpb.WithAutoRefresh())
	_, total := Settled(now)
	bar := container.AddBar(total, mpb.BarExtender(extend, false),
		mpb.PrependDecorators(text(func(f runfiles.Facts) string {
			n, of := Settled(f)
			return fmt.Sprintf("%d/%d rows ", n, of)
		})),
		mpb.AppendDecorators(text(func(f runfiles.Facts) string {
			t := fmt.Sprintf("%3d %%", Percent(f))
			if r := rate(f); r != "" {
				t += "  " + r
			}
			return t + "  " + left(f)
		})))
	if over != nil {
		over(container)
		defer over(nil)
	}
	tick := time.NewTicker(barEvery)
	defer tick.Stop()
	for more := true; more; {
		select {
		case <-tick.C:
		case <-d.quit:
			more = false
		}
		f := d.facts()
		mu.Lock()
		now = f
		mu.Unlock()
		settled, of := Settled(f)
		bar.SetTotal(of, false)
		bar.SetCurrent(settled)
	}
	bar.Abort(false)
	container.Wait()
}

// cut shortens a line to a width, so that a terminal does not wrap it.
func cut(line string, width int) string {
	runes := []rune(line)
	if width < 20 || len(runes) <= width {
		return line
	}
	return string(runes[:width-1]) + "…"
}

// lines prints a line every linesEvery and for each finished percent.
func (d *Display) lines() {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	next, percent := time.Now().Add(firstLine), 0
	for {
		select {
		case <-tick.C:
		case <-d.quit:
			if f := d.facts(); f.Rows.Done+f.Rows.Failed > 0 && Percent(f) != percent {
				d.print(f)
			}
			return
		}
		f := d.facts()
		if now := Percent(f); now != percent || time.Now().After(next) {
			d.print(f)
			next, percent = time.Now().Add(linesEvery), now
		}
	}
}

// line prints the facts as a line with the time.
func (d *Display) line(f runfiles.Facts) {
	fmt.Fprintf(d.w, "%s %s\n", time.Now().UTC().Format("2006-01-02T15:04:05Z"), logs.Visible(Line(f)))
}
