package runpage

import (
	"fmt"
	"slices"
	"time"
)

// colours is how many colours of stages the page has.
const colours = 8

// chart is a list of bars. Labels and values stand in columns of their own, or on a phone above their bar: never on it.
type chart struct {
	Title, Note string
	Bars        []bar
}

type bar struct {
	Label, Value string
	Parts        []drawnPart
}

type drawnPart struct {
	Width float64 // percent of the room for bars
	Class int
	Title string
}

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

// cellChart has a bar for each shape or device. Bars of shapes are compared with the longest one, those of devices with
// the whole run.
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
		// A device works on several batches at once where it may: its bar ends with the run all the same.
		c.add(name, value, float64(max(whole, sums[name])), own)
	}
	return c
}

// barPart is a part of a bar before it has a place.
type barPart struct {
	amount float64
	class  int
	title  string
}

// timeOf is the time of a cell.
func (r *Run) timeOf(c Cell) barPart {
	return barPart{float64(c.Busy), r.classOf(c.Stage), fmt.Sprintf("%s: %s", c.Stage, Short(c.Busy))}
}

// classOf is the colour of a stage.
func (r *Run) classOf(stage string) int { return max(0, slices.Index(r.Stages, stage)) % colours }

// add adds a bar made of pieces; whole is what the full width stands for.
func (c *chart) add(label, value string, whole float64, pieces []barPart) {
	b := bar{Label: label, Value: value}
	for _, p := range pieces {
		b.Parts = append(b.Parts, drawnPart{Width: 100 * p.amount / max(1, whole), Class: p.class, Title: p.title})
	}
	c.Bars = append(c.Bars, b)
}
