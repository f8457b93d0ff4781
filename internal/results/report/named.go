package report

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strconv"
	"strings"

	"latentbeam/internal/config"
	"latentbeam/internal/results/where"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// NameVideos sets Names and Where by output.name and output.where, so that chosen videos get readable names in a folder.
func (j *Job) NameVideos(cfg *config.Config) (err error) {
	if cfg.Output.Name == "" && cfg.Output.Where == "" {
		return nil
	}
	if cfg.Output.Name == "" {
		return cfg.Errorf("output.where", "output.where chooses the videos that get names, and there is no output.name").
			WithFix("add name: \"{id}\", or remove where; export and copy have --where")
	}
	if j.Names, err = config.ParseName(cfg.Output.Name); err != nil {
		return cfg.Errorf("output.name", "%v", err)
	}
	if cfg.Output.Where == "" {
		return nil
	}
	if j.Where, err = where.Parse(cfg.Output.Where); err != nil {
		return cfg.Errorf("output.where", "%v", err)
	}
	return nil
}

// NameCollector collects the names of rows and finds two rows with the same name. It uses 24 bytes of memory per row.
type NameCollector struct {
	name    *config.NameTemplate
	seen    []namedRow
	unknown []string // columns of the template that no row has so far
}

// namedRow is a row with the hash of its name and the first bytes of its key.
type namedRow struct{ name, key, row uint64 }

// CollectNames returns an empty collector. It returns nil, which is also usable, if the job gives no names.
func CollectNames(name *config.NameTemplate) *NameCollector {
	if name == nil {
		return nil
	}
	n := &NameCollector{name: name}
	for _, c := range name.Columns() {
		if !slices.Contains(columns, c) {
			n.unknown = append(n.unknown, c)
		}
	}
	return n
}

// Add adds the next row of the input.
func (n *NameCollector) Add(e *stages.Element) {
	if n == nil {
		return
	}
	if len(n.unknown) > 0 {
		carried, _ := schemas.Carried(e.Row.Extra) // after an error there are no columns
		n.unknown = slices.DeleteFunc(n.unknown, func(c string) bool {
			return slices.ContainsFunc(carried, func(one schemas.CarriedColumn) bool { return one.Name == c })
		})
	}
	row := namedRow{row: uint64(len(n.seen)), key: binary.BigEndian.Uint64(e.Key[:])}
	if e.Failed == nil {
		row.name = foldedHash(NameOf(n.name, e))
	}
	n.seen = append(n.seen, row)
}

// Unknown returns an error if the template has a column that no row has.
func (n *NameCollector) Unknown() error {
	if n == nil || len(n.unknown) == 0 || len(n.seen) == 0 {
		return nil
	}
	return fmt.Errorf("output.name: no row has a column %q; there are %s, and the other columns of the table",
		n.unknown[0], strings.Join(columns, ", "))
}

// Conflict returns the numbers, from 0, of two rows that have the same name and different videos.
func (n *NameCollector) Conflict() (first, second uint64, found bool) {
	if n == nil {
		return 0, 0, false
	}
	slices.SortFunc(n.seen, func(a, b namedRow) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.row, b.row)) })
	for i := 1; i < len(n.seen); i++ {
		a, b := n.seen[i-1], n.seen[i]
		if a.name == b.name && a.name != 0 && a.key != b.key && (!found || b.row < second) {
			first, second, found = a.row, b.row, true
		}
	}
	return first, second, found
}

// ConflictError returns the error for two rows with the same name.
func ConflictError(name *config.NameTemplate, a, b *stages.Element) error {
	return fmt.Errorf("output.name: rows %s (id %q) and %s (id %q) would both be names/%s; add a column in which they differ, "+
		"such as {seed} or {sample_index}", a.Given.Source, a.Row.ID, b.Given.Source, b.Row.ID, NameOf(name, b))
}

// foldedHash returns a hash of a name, equal for names that differ only in case; never 0.
func foldedHash(name string) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, config.FoldName(name)) // a hash never fails
	return max(1, h.Sum64())                        // 0 means no name
}

// NameOf returns the name of a row without an extension. A column that the row does not have is empty in the name.
func NameOf(name *config.NameTemplate, e *stages.Element) string {
	carried, _ := schemas.Carried(e.Row.Extra) // after an error there are no columns
	return name.Name(func(column string) string {
		for _, c := range carried {
			if c.Name == column {
				return c.Text()
			}
		}
		return rowText(e, column)
	})
}

// columns lists the columns that every row has and that a name may contain.
var columns = []string{"id", "key", "prompt", "negative_prompt", "seed", "sample_index", "height", "width",
	"num_frames", "fps", "num_inference_steps", "guidance_scale"}

// rowText returns the value of one of columns as text.
func rowText(e *stages.Element, column string) string {
	r := &e.Row
	real := func(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
	switch column {
	case "id":
		return r.ID
	case "key":
		return e.Key.String()
	case "prompt":
		return r.Prompt
	case "negative_prompt":
		return r.NegativePrompt
	case "seed":
		if r.Seed != nil {
			return strconv.FormatInt(*r.Seed, 10)
		}
	case "sample_index":
		return strconv.Itoa(r.SampleIndex)
	case "height":
		return strconv.Itoa(r.Height)
	case "width":
		return strconv.Itoa(r.Width)
	case "num_frames":
		return strconv.Itoa(r.NumFrames)
	case "fps":
		return real(r.FPS)
	case "num_inference_steps":
		return strconv.Itoa(r.NumInferenceSteps)
	case "guidance_scale":
		return real(r.Guidance())
	}
	return ""
}
