package runpage

import (
	"fmt"
	"slices"
	"time"
)

// colours is the number of colours for stages.
const colours = 8

// chart is a bar chart. Labels and values are in their own columns, or above the bar on a narrow screen. They are never on a bar.
type chart struct {
	Title, Note string
	Bars        []bar
}

// bar is a bar of a chart.
type bar struct {
	Label, Value string
	Parts        []drawnPart
}

// drawnPart is a coloured part of a bar.
type drawnPart struct {
	Width float64 // percent of the chart's width
	Class int     // number of the colour
	Title string
}

// stageChart returns a chart of time by stage.
func (r *Run) stageChart() chart {
	var all, most time.Duration
	for _, s := range r.Stage {
		most = max(most, s.Busy)
		if !s.Beside {
			all += s.Busy
		}
	}
	c := chart{Title: "Time by stage", Note: "Time that each stage was at work. What hosts do beside the devices, such as " +
		"decoding, is of all threads together."}
	for _, s := range r.Stage {
		share := percent(float64(s.Busy), float64(all))
		if s.Beside {
			share = "beside"
		}
		c.add(s.Name, Short(s.Busy)+", "+share, float64(most), []barPart{r.timeOf(Cell{Stage: s.Name, Busy: s.Busy})})
	}
	return c
}

// cellChart returns a chart with a bar for each shape or device. If relative, the full width is the longest bar; otherwise it is the
// duration of the run.
func (r *Run) cellChart(title, note string, cells []Cell, relative bool) chart {
	c := chart{Title: title, Note: note}
	var names []string
	sums := map[string]time.Duration{}
	rows := map[string]int{}
	for _, cell := range cells {
		if !slices.Contains(names, cell.Of) {
			names = append(names, cell.Of)
		}
		sums[cell.Of] += cell.Busy
		rows[cell.Of] = max(rows[cell.Of], cell.Rows)
	}
	whole := r.Elapsed
	if relative {
		whole = 0
		for _, s := range sums {
			whole = max(whole, s)
		}
	}
	for _, name := range names {
		var own []barPart
		for _, cell := range cells {
			if cell.Of == name {
				own = append(own, r.timeOf(cell))
			}
		}
		value := fmt.Sprintf("%s, %s busy", Short(sums[name]), percent(float64(sums[name]), float64(r.Elapsed)))
		if relative {
			value = fmt.Sprintf("%s, %d rows", Short(sums[name]), rows[name])
			if rows[name] == 1 {
				value = Short(sums[name]) + ", 1 row"
			}
		}
		// A device can work on several batches at once, so its sum can exceed the run. Its bar is scaled to the full width then.
		c.add(name, value, float64(max(whole, sums[name])), own)
	}
	return c
}

// barPart is a part of a bar before scaling.
type barPart struct {
	amount float64
	class  int
	title  string
}

// timeOf returns the part of a bar for the time of a cell.
func (r *Run) timeOf(c Cell) barPart {
	return barPart{float64(c.Busy), r.classOf(c.Stage), fmt.Sprintf("%s: %s", c.Stage, Short(c.Busy))}
}

// classOf returns the number of a stage's colour.
func (r *Run) classOf(stage string) int { return max(0, slices.Index(r.Stages, stage)) % colours }

// add adds a bar that consists of pieces. whole is the amount that corresponds to the full width.
func (c *chart) add(label, value string, whole float64, pieces []barPart) {
	b := bar{Label: label, Value: value}
	for _, p := range pieces {
		b.Parts = append(b.Parts, drawnPart{Width: 100 * p.amount / max(1, whole), Class: p.class, Title: p.title})
	}
	c.Bars = append(c.Bars, b)
}
