package forecast

import (
	"fmt"
	"hash/fnv"
	"iter"
	"path"
	"slices"
	"strings"

	"latentbeam/internal/config"
	"latentbeam/internal/system"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// Doubts collects what the user may not have intended in the rows of a job: rows with the same id, empty prompts, and rows on which
// the built-in model was not trained. It uses eight bytes of memory per row with an id.
type Doubts struct {
	prompts    bool            // results depend on prompts
	shows      bool            // the job makes pictures
	ids        *system.Numbers // hashes of ids
	empty      int64
	firstEmpty string
	tiny       outside
	draws      bool // the built-in model makes the pictures

	// CutTokens returns the number of tokens that are cut off a prompt; nil: not counted.
	CutTokens func(row *schemas.PromptRow) int
	cut       int64
	firstCut  string
}

// NewDoubts returns empty Doubts. prompts says that results depend on prompts, shows that the job makes pictures from prompts, and
// tiny that the built-in model makes the pictures.
func NewDoubts(prompts, shows, tiny bool) *Doubts {
	return &Doubts{ids: &system.Numbers{}, prompts: prompts, shows: shows, draws: tiny}
}

// See adds the next row of the input.
func (d *Doubts) See(e *stages.Element) {
	if e.Given.ID != "" && e.Row.SampleIndex == 0 {
		d.ids.Add(idHash(e.Given.ID))
	}
	asked := strings.HasSuffix(e.Row.ID, schemas.NullMark) // the job asked for a row without caption
	if d.prompts && !asked && e.Failed == nil && strings.TrimSpace(e.Row.Prompt) == "" {
		if d.empty++; d.empty == 1 {
			d.firstEmpty = path.Base(e.Given.Source)
		}
	}
}

// New adds a row that will be computed.
func (d *Doubts) New(e *stages.Element) {
	if d.draws {
		d.tiny.see(&e.Row)
	}
	if d.CutTokens == nil || e.Row.SampleIndex > 0 {
		return
	}
	n := d.CutTokens(&e.Row)
	if n == 0 {
		return
	}
	if d.cut++; d.cut == 1 {
		d.firstCut = fmt.Sprintf("%s, which loses %s of %d", path.Base(e.Given.Source), count(int64(n), "token", "tokens"),
			e.Row.MaxSequenceLength+n)
	}
}

// idHash returns a hash of the file name that an id gets in exports.
func idHash(id string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(config.IDStem(id)))
	return h.Sum64()
}

// Warnings returns the warnings. If several rows have the same id, it reads the rows again to name two of them.
func (d *Doubts) Warnings(rows iter.Seq2[*stages.Element, error]) (all []string, err error) {
	if d.empty > 0 {
		text := fmt.Sprintf("%s without a word, the first in %s", count(d.empty, "prompt is", "prompts are"), d.firstEmpty)
		if d.shows {
			text += ": the model decides what it shows"
		}
		all = append(all, text)
	}
	if d.cut > 0 {
		all = append(all, fmt.Sprintf("%s longer than max_sequence_length and cut there, the first in %s",
			count(d.cut, "prompt is", "prompts are"), d.firstCut))
	}
	shared, err := d.sharedIDs(rows)
	if shared != "" {
		all = append(all, shared)
	}
	if odd := d.tiny.warning(); odd != "" {
		all = append(all, odd)
	}
	return all, err
}

// sharedIDs returns a warning about rows with the same id; "": there are none.
func (d *Doubts) sharedIDs(rows iter.Seq2[*stages.Element, error]) (string, error) {
	ids := d.ids.All()
	slices.Sort(ids)
	var again int64
	var shared uint64
	for i := 1; i < len(ids); i++ {
		if ids[i] == ids[i-1] {
			again, shared = again+1, ids[i]
		}
	}
	d.ids.Free()
	if again == 0 {
		return "", nil
	}
	var places, named []string
	for e, err := range rows {
		if err != nil {
			return "", err
		}
		if e.Given.ID == "" || e.Row.SampleIndex > 0 || idHash(e.Given.ID) != shared {
			continue
		}
		named = append(named, e.Given.ID)
		if places = append(places, e.Given.Source); len(places) == 2 {
			break
		}
	}
	if len(places) == 2 && path.Dir(places[0]) == path.Dir(places[1]) { // the folders are not needed to distinguish them
		places = []string{path.Base(places[0]), path.Base(places[1])}
	}
	if len(named) == 0 { // the input has changed meanwhile
		return "", nil
	}
	if len(named) == 2 && named[0] != named[1] {
		return fmt.Sprintf("%s an id that gives the same name of files as another one, such as %q and %q in %s: an export that names "+
			"files by id refuses them", count(again, "row has", "rows have"), named[0], named[1], strings.Join(places, " and ")), nil
	}
	return fmt.Sprintf("%s the id of another row, such as %q in %s: the tables tell them apart by their keys alone, and an export that names "+
		"files by id refuses them",
		count(again, "row has", "rows have"), named[0], strings.Join(places, " and ")), nil
}

// count formats a number with a noun, and possibly a verb.
func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
