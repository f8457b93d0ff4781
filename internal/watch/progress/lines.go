package progress

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"latentbeam/internal/watch/runfiles"
)

// Settled returns the number of settled rows and the number of all rows of this run. Both leave out unusable rows, rows that
// an earlier run settled, and duplicates.
func Settled(f runfiles.Facts) (settled, total int64) {
	total = max(f.Rows.Total, f.Rows.Done+f.Rows.Failed)
	return f.Rows.Done + f.Rows.Failed, total
}

// Percent returns the percentage of settled rows, rounded down.
func Percent(f runfiles.Facts) int {
	settled, total := Settled(f)
	return int(100 * settled / max(1, total))
}

// Line formats the facts of a process as one line: "3/60 rows, 0 failed, 5 %, 2.1 rows/min, ETA 27m; denoise 17/50 of 4 rows on
// cpu:0".
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

// shapesShown and othersShown limit the lines for shapes and devices on a terminal.
const (
	shapesShown = 6
	othersShown = 8
)

// Lines formats what a terminal shows below the bar: devices, waiting batches, stages, shapes and failures.
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

// failures formats the number of failed rows and the reason of the first failure.
func failures(f runfiles.Facts) string {
	text := fmt.Sprintf("%d failed", f.Rows.Failed+f.Rows.Bad)
	if f.Rows.Bad > 0 {
		text += fmt.Sprintf(" (%d cannot be used)", f.Rows.Bad)
	}
	return text + ", the first: " + strings.ReplaceAll(f.First, "\n", " ")
}

// busy returns the number of working devices.
func busy(devices []runfiles.DeviceState) (n int) {
	for _, d := range devices {
		if d.Stage != "" {
			n++
		}
	}
	return n
}

// device formats the state of a device.
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

// work formats the work of a batch: "denoise 17/50 of 4 rows".
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

// Rows formats a number of rows: "1 row", "2 rows".
func Rows[N int | int64](n N) string {
	if n == 1 {
		return "1 row"
	}
	return fmt.Sprintf("%d rows", n)
}

// working returns the batches that are on devices.
func working(f runfiles.Facts) []runfiles.Batch {
	return slices.DeleteFunc(slices.Clone(f.Batches), func(b runfiles.Batch) bool { return b.Device == "" })
}

// waiting formats the numbers of rows that wait for devices, by stage.
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

// shape formats the progress of a shape.
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

// rate formats the rows per minute since the start of the process; "": no row is settled yet.
func rate(f runfiles.Facts) string {
	settled, _ := Settled(f)
	if passed := f.At.Sub(f.Started).Minutes(); settled > 0 && passed > 0 {
		return perMinute(float64(settled) / passed)
	}
	return ""
}

// perMinute formats a rate in a unit that suits it.
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

// left formats the remaining time. On a cluster it takes some time until the first worker starts.
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
	case f.Away && eta <= 0: // extrapolate the time so far, including the start of the cluster
		eta = f.At.Sub(f.Started).Seconds() * float64(total-settled) / float64(settled)
	case eta <= 0:
		return "ETA ?"
	}
	return "ETA " + short(eta)
}

// stopping formats the work that a stopping process still finishes.
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

// short formats a duration in seconds with at most two units.
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

// since formats the time from t until now.
func since(now, t time.Time) string { return short(max(0, now.Sub(t).Seconds())) }
