package report

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"latentbeam/internal/names"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// namesDir has the videos under names for people. It belongs to the program: what is no name of a row is removed.
const namesDir = "names"

// Named collects the names of rows, so that two rows with one name are found. It takes 24 bytes a row.
type Named struct {
	job     *Job
	seen    []namedRow
	unknown []string // columns of the template that no row has had yet
}

type namedRow struct{ name, key, row uint64 }

// Named begins to collect; nil where the job gives no names.
func (j *Job) Named() *Named {
	if j.Names == nil {
		return nil
	}
	n := &Named{job: j}
	for _, c := range j.Names.Columns() {
		if !slices.Contains(NameColumns, c) {
			n.unknown = append(n.unknown, c)
		}
	}
	return n
}

// Add adds the next row of the input.
func (n *Named) Add(e *stages.Element) {
	if n == nil {
		return
	}
	if len(n.unknown) > 0 {
		carried, _ := schemas.Carried(e.Row.Extra) // what cannot be read has no columns
		n.unknown = slices.DeleteFunc(n.unknown, func(c string) bool {
			return slices.ContainsFunc(carried, func(one schemas.CarriedColumn) bool { return one.Name == c })
		})
	}
	row := namedRow{row: uint64(len(n.seen)), key: binary.BigEndian.Uint64(e.Key[:])}
	if e.Failed == nil {
		row.name = foldedHash(n.job.nameOf(e))
	}
	n.seen = append(n.seen, row)
}

// Unknown is the error of a template with a column that no row has; nil where there is none, or no row.
func (n *Named) Unknown() error {
	if n == nil || len(n.unknown) == 0 || len(n.seen) == 0 {
		return nil
	}
	return fmt.Errorf("output.name: no row has a column %q; there are %s, and the other columns of the table",
		n.unknown[0], strings.Join(NameColumns, ", "))
}

// Conflict returns the numbers of two rows, from 0, that have one name and different videos.
func (n *Named) Conflict() (first, second uint64, found bool) {
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

// ConflictError says that two rows have one name.
func (j *Job) ConflictError(a, b *stages.Element) error {
	return fmt.Errorf("output.name: rows %s (id %q) and %s (id %q) would both be names/%s; add a column in which they differ, "+
		"such as {seed} or {sample_index}", a.Given.Source, a.Row.ID, b.Given.Source, b.Row.ID, j.nameOf(b))
}

func foldedHash(name string) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, names.Fold(name)) // a hash takes all
	return max(1, h.Sum64())                   // 0: no name
}

// nameOf is the name of a row, without its extension. A column that the row has not got is empty.
func (j *Job) nameOf(e *stages.Element) string {
	carried, _ := schemas.Carried(e.Row.Extra) // what cannot be read has no columns
	return j.Names.Name(func(column string) string {
		for _, c := range carried {
			if c.Name == column {
				return c.Text()
			}
		}
		return rowText(e, column)
	})
}

// NameColumns are the columns of every row that a name may have.
var NameColumns = []string{"id", "key", "prompt", "negative_prompt", "seed", "sample_index", "height", "width",
	"num_frames", "fps", "num_inference_steps", "guidance_scale"}

// rowText is one of NameColumns as a text.
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

// name gives every video its name. A report of all rows also removes what is no name of a row any more.
func (j *Job) name(ctx context.Context) error {
	if j.Names == nil {
		return nil
	}
	root, err := os.OpenRoot(j.Store.URL())
	if err != nil {
		return fmt.Errorf("give names: %w", err)
	}
	defer root.Close()
	if err := root.Mkdir(namesDir, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("give names: %w", err)
	}
	var given []uint64
	for o, err := range j.done(ctx) {
		if err != nil {
			return err
		}
		if o.result.Video == nil {
			continue
		}
		name := j.nameOf(o.Element) + path.Ext(o.result.Video.Path)
		given = append(given, foldedHash(name))
		if err := giveName(root, o.result.Video.Path, path.Join(namesDir, name)); err != nil {
			return fault.TryAgain(fmt.Errorf("name the video of %s: %w", o.Given.Source, err))
		}
	}
	if j.Part != "" {
		return nil
	}
	slices.Sort(given)
	return removeNames(root, given)
}

// removeNames removes what is not among the hashes.
func removeNames(root *os.Root, given []uint64) error {
	dir, err := root.Open(namesDir)
	if err != nil {
		return fmt.Errorf("give names: %w", err)
	}
	defer dir.Close()
	for {
		entries, err := dir.ReadDir(1024)
		for _, e := range entries {
			if _, known := slices.BinarySearch(given, foldedHash(e.Name())); known || e.IsDir() {
				continue
			}
			if err := root.Remove(path.Join(namesDir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("give names: %w", err)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("give names: %w", err)
		}
	}
}

// giveName puts the file from at the name to as well: a clone where the file system can share blocks, else a hard link
// that nobody writes through, else a copy. What is there already stays.
func giveName(root *os.Root, from, to string) error {
	source, err := root.Stat(from)
	if err != nil {
		return err
	}
	there, err := root.Lstat(to)
	if err == nil && (os.SameFile(source, there) || same(source, there)) {
		return nil
	}
	// One temporary name is enough: the lock of the job is held. A file left by a kill is no name of a row.
	temp := path.Join(namesDir, strings.TrimSuffix(path.Base(from), path.Ext(from))+".part")
	if err := root.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := clone(root, from, temp); err != nil {
		if err := root.Link(from, temp); err == nil {
			if err := root.Chmod(temp, 0o444); err != nil {
				return err
			}
			return root.Rename(temp, to)
		}
		if err := copyTo(root, from, temp); err != nil {
			return err
		}
	}
	at := source.ModTime()
	if err := root.Chtimes(temp, time.Time{}, at); err != nil {
		return err
	}
	return root.Rename(temp, to)
}

// same reports whether a copy has the size and the time of its source, as giveName gives them.
func same(source, there fs.FileInfo) bool {
	return there.Mode().IsRegular() && source.Size() == there.Size() && source.ModTime().Equal(there.ModTime())
}

func copyTo(root *os.Root, from, to string) error {
	in, err := root.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := root.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
