package runpage

import (
	"slices"

	"latentbeam/stages/cost"
)

// weightsClass is the number of the colour for weights.
const weightsClass = colours

// memoryCharts returns charts of the peak memory of batches on one device. They are empty if no device reports its memory.
func (r *Run) memoryCharts(shapes, devices []Cell) []chart {
	return []chart{
		r.memoryByStage(shapes),
		r.memoryBy("Memory by shape", "The most that a batch of each shape held on one device, in the stage that held it.", shapes),
		r.memoryBy("Memory by device", "The most that a batch held on each device, in the stage that held it.", devices),
	}
}

// memoryByStage returns a chart with a bar for each stage: its weights and the peak memory of its batches.
func (r *Run) memoryByStage(cells []Cell) chart {
	c := chart{Title: "Memory by stage", Note: "Weights of each stage (grey), and the most that a batch of it held on one device."}
	weights, most, whole := map[string]int64{}, map[string]int64{}, int64(1)
	for _, s := range r.Stage {
		weights[s.Name] = s.Weights
	}
	for _, cell := range cells {
		most[cell.Stage] = max(most[cell.Stage], cell.Memory)
	}
	for _, s := range r.Stages {
		whole = max(whole, weights[s]+most[s])
	}
	for _, s := range r.Stages {
		if most[s] == 0 {
			continue
		}
		pieces, text := []barPart{{float64(most[s]), r.classOf(s), s + ": a batch " + cost.Bytes(most[s])}}, cost.Bytes(most[s])
		if w := weights[s]; w > 0 {
			text = cost.Bytes(w) + " + " + text
			pieces = append([]barPart{{float64(w), weightsClass, s + ": weights " + cost.Bytes(w)}}, pieces...)
		}
		c.add(s, text, float64(whole), pieces)
	}
	return c
}

// memoryBy returns a chart with a bar for each shape or device.
func (r *Run) memoryBy(title, note string, cells []Cell) chart {
	c := chart{Title: title, Note: note}
	var names []string
	fullest, whole := map[string]Cell{}, int64(1)
	for _, cell := range cells {
		if cell.Memory == 0 {
			continue
		}
		if !slices.Contains(names, cell.Of) {
			names = append(names, cell.Of)
		}
		if cell.Memory > fullest[cell.Of].Memory {
			fullest[cell.Of] = cell
		}
		whole = max(whole, cell.Memory)
	}
	for _, name := range names {
		f := fullest[name]
		text := cost.Bytes(f.Memory)
		c.add(name, text+", "+f.Stage, float64(whole), []barPart{{float64(f.Memory), r.classOf(f.Stage), f.Stage + ": " + text}})
	}
	return c
}
