package progress

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"latentbeam/internal/watch/runfiles"
)

// Settled returns the rows that have come to an end, and those that there are. Unreadable rows, rows settled by an
// earlier run and duplicates count in neither.
func Settled(f runfiles.Facts) (settled, total int64) {
	total = max(f.Rows.Total, f.Rows.Done+f.Rows.Failed)
	return f.Rows.Done + f.Rows.Failed, total
}

// Percent is the part of the rows that is settled, rounded down.
func Percent(f runfiles.Facts) int {
	settled, total := Settled(f)
	return int(100 * settled / max(1, total))
}

// Line is one line about a process: "3/60 rows, 0 failed, 5 %, 2.1 rows/min, ETA 27m; denoise 17/50 of 4 rows on cpu:0".
func Line(f runfiles.Facts) string {
	settled, total := Settled(f)
	var b strings.Builder
	fmt.Fprintf(&b, "%d/%d rows, %d failed, %d %%", settled, total, f.Rows.Failed+f.Rows.Bad, Percent(f))
	if r := rate(f); r != "" {
		fmt.Fprintf(&b, ", %s", r)
	}
	fmt.Fprintf(&b, ", %s", left(f))
	for i, w := range working(f) {
		sep := ", "
		if i == 0 {
			sep = "; "
		}
		b.WriteString(sep + work(w) + " on " + w.Device)
	}
	return b.String()
}

// shapesShown and othersShown bound the lines that a terminal shows.
const (
	shapesShown = 6
	othersShown = 8
)

// Lines are what a terminal shows below the bar: devices, what waits, stages, shapes and failures.
func Lines(f runfiles.Facts, now time.Time) (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	width := 0
	for _, d := range f.Devices {
		width = max(width, len(d.Name))
	}
	for i, d := range f.Devices {
		if i == othersShown {
			add("%-*s and %d more devices, %d at work", width, "", len(f.Devices)-i, busy(f.Devices[i:]))
			break
		}
		add("%-*s  %s", width, d.Name, device(f, d, now))
	}
	if w := waiting(f); w != "" {
		add("waiting: %s", w)
	}
	var parts []string
	for _, s := range f.Stages {
		parts = append(parts, fmt.Sprintf("%s %d", s.Stage, s.Rows))
	}
	if len(parts) > 0 {
		add("rows through %s", strings.Join(parts, ", "))
	}
	for i, r := range f.Rates {
		if i == shapesShown {
			add("and %d more shapes", len(f.Rates)-i)
			break
		}
		add("%s", shape(r))
	}
	if n := f.Rows.Failed + f.Rows.Bad; n > 0 {
		add("%s", failures(f))
	}
	return lines
}

// failures says how many rows have failed and why the first has.
func failures(f runfiles.Facts) string {
	text := fmt.Sprintf("%d failed", f.Rows.Failed+f.Rows.Bad)
	if f.Rows.Bad > 0 {
		text += fmt.Sprintf(" (%d cannot be used)", f.Rows.Bad)
	}
	return text + ", the first: " + strings.ReplaceAll(f.First, "\n", " ")
}

func busy(devices []runfiles.DeviceState) (n int) {
	for _, d := range devices {
		if d.Stage != "" {
			n++
		}
	}
	return n
}

// device says what a device does.
func device(f runfiles.Facts, d runfiles.DeviceState, now time.Time) string {
	if d.Stage == "" {
		return "idle for " + since(now, d.Since)
	}
	for _, b := range f.Batches {
		if slices.Contains(strings.Fields(b.Device), d.Name) {
			return fmt.Sprintf("%s, %s, for %s", work(b), b.Shape, since(now, b.Begun))
		}
	}
	return d.Stage
}

// work is what a batch is doing: "denoise 17/50 of 4 rows".
func work(b runfiles.Batch) string {
	text := fmt.Sprintf("%s of %s", b.Stage, Rows(b.Count))
	if b.Of > 0 {
		text = fmt.Sprintf("%s %d/%d of %s", b.Stage, b.Step, b.Of, Rows(b.Count))
	}
	if b.Note != "" {
		text += " (" + b.Note + ")"
	}
	return text
}

// Rows is a number of rows in words.
func Rows[N int | int64](n N) string {
	if n == 1 {
		return "1 row"
	}
	return fmt.Sprintf("%d rows", n)
}

func working(f runfiles.Facts) []runfiles.Batch {
	return slices.DeleteFunc(slices.Clone(f.Batches), func(b runfiles.Batch) bool { return b.Device == "" })
}

// waiting counts what waits for devices, by stage.
func waiting(f runfiles.Facts) string {
	var stages []string
	batches, of := map[string]int{}, map[string]int{}
	for _, b := range f.Batches {
		if b.Device != "" {
			continue
		}
		if batches[b.Stage] == 0 {
			stages = append(stages, b.Stage)
		}
		batches[b.Stage]++
		of[b.Stage] += b.Count
	}
	for i, s := range stages {
		stages[i] = fmt.Sprintf("%s of %s", s, Rows(of[s]))
	}
	return strings.Join(stages, ", ")
}

// shape says how far the rows of a shape are.
func shape(r runfiles.Rate) string {
	text := fmt.Sprintf("%s: %d/%d rows", r.Shape, r.Settled, r.Total)
	if r.PerMinute > 0 {
		text += ", " + perMinute(r.PerMinute)
	}
	if r.ETA > 0 && r.Settled < r.Total {
		text += ", " + short(r.ETA) + " left"
	}
	return text
}

// rate is rows a minute since the process began, "" before the first.
func rate(f runfiles.Facts) string {
	settled, _ := Settled(f)
	if passed := f.At.Sub(f.Started).Minutes(); settled > 0 && passed > 0 {
		return perMinute(float64(settled) / passed)
	}
	return ""
}

func perMinute(v float64) string {
	switch {
	case v >= 600:
		return fmt.Sprintf("%.0f rows/s", v/60)
	case v >= 60:
		return fmt.Sprintf("%.1f rows/s", v/60)
	case v >= 1:
		return fmt.Sprintf("%.1f rows/min", v)
	}
	return fmt.Sprintf("%.1f rows/h", 60*v)
}

// left says how long the rest of the rows takes. A cluster needs a while until its first worker begins.
func left(f runfiles.Facts) string {
	settled, total := Settled(f)
	eta := f.ETA
	switch {
	case f.State == runfiles.Stopping:
		return stopping(f)
	case settled >= total:
		return "ETA 0s"
	case f.Away && f.Workers == 0:
		return "submitted, no worker has begun yet"
	case f.Away && settled == 0:
		return fmt.Sprintf("%d at work, ETA ?", f.Workers)
	case f.Away && eta <= 0: // at the pace so far, the start of the cluster included
		eta = f.At.Sub(f.Started).Seconds() * float64(total-settled) / float64(settled)
	case eta <= 0:
		return "ETA ?"
	}
	return "ETA " + short(eta)
}

// stopping says what a process that was asked to end still does.
func stopping(f runfiles.Facts) string {
	n := 0
	for _, b := range working(f) {
		n += b.Count
	}
	if n == 0 {
		return "stopping"
	}
	return fmt.Sprintf("stopping: finishing %s", Rows(n))
}

// short is a duration as people say it: at most two units.
func short(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Round(time.Second).Seconds()))
	case d < time.Hour:
		d = d.Round(time.Second)
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		d = d.Round(time.Minute)
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%.0f days", d.Hours()/24)
}

func since(now, t time.Time) string { return short(max(0, now.Sub(t).Seconds())) }
