package pipelines

import (
	"context"
	"fmt"
	"hash/fnv"
	"path"
	"slices"
	"strings"

	"latentbeam/stages"
)

// doubts collects what a run can do and a person may not have meant: rows with one id, and prompts without a word. It
// takes eight bytes a row with an id.
type doubts struct {
	prompts    bool // they matter
	ids        []uint64
	empty      int64
	firstEmpty string
}

// doubtsOf begins to collect for a job.
func (j *Job) doubtsOf() *doubts {
	return &doubts{prompts: slices.Contains(j.engine.Rules.Params(), stages.ParamPrompt)}
}

// see takes the next row of the input.
func (d *doubts) see(e *stages.Element) {
	if e.Given.ID != "" && e.Row.SampleIndex == 0 {
		d.ids = append(d.ids, idHash(e.Given.ID))
	}
	if d.prompts && e.Failed == nil && strings.TrimSpace(e.Row.Prompt) == "" {
		if d.empty++; d.empty == 1 {
			d.firstEmpty = path.Base(e.Given.Source)
		}
	}
}

func idHash(id string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(id))
	return h.Sum64()
}

// warnings says what there is to be doubted. It reads the input again where rows have one id, to name two of them.
func (d *doubts) warnings(ctx context.Context, j *Job) (all []string, err error) {
	if d.empty > 0 {
		all = append(all, fmt.Sprintf("%s without a word, the first in %s: the model decides what it shows", count(d.empty, "prompt is", "prompts are"),
			d.firstEmpty))
	}
	slices.Sort(d.ids)
	var again int64
	var shared uint64
	for i := 1; i < len(d.ids); i++ {
		if d.ids[i] == d.ids[i-1] {
			again, shared = again+1, d.ids[i]
		}
	}
	if again == 0 {
		return all, nil
	}
	var places []string
	id := ""
	for e, err := range j.all(ctx) {
		if err != nil {
			return nil, err
		}
		if e.Given.ID == "" || e.Row.SampleIndex > 0 || idHash(e.Given.ID) != shared {
			continue
		}
		id = e.Given.ID
		if places = append(places, path.Base(e.Given.Source)); len(places) == 2 {
			break
		}
	}
	return append(all, fmt.Sprintf("%s the id of another row, such as %q in %s: the tables tell them apart by their keys alone",
		count(again, "row has", "rows have"), id, strings.Join(places, " and "))), nil
}

// count is a number with its noun and verb.
func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
