package audit

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"latentbeam/internal/results/report"
	"latentbeam/internal/results/tables"
	"latentbeam/internal/storage/fingerprints"
	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/storage/store"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
)

// CleanOptions say what Clean removes.
type CleanOptions struct {
	Apply     bool          // else it is only said
	OlderThan time.Duration // only what was written before; 0: whatever its age
	Now       time.Time
}

// Cleaned says what was removed, or would be.
type Cleaned struct {
	Output  string    `json:"output"`
	Applied bool      `json:"applied"`
	Rows    int64     `json:"rows"` // that the tables name; they stay
	Records int64     `json:"records"`
	Files   int64     `json:"files"`
	Bytes   int64     `json:"bytes"`     // of files
	Partial int       `json:"partial"`   // pieces of runs that were killed, removed only
	Young   int64     `json:"too_young"` // files that stay for their age
	Listed  []Finding `json:"listed"`    // at most maxFindings of the files
}

// cleaner is one Clean under way.
type cleaner struct {
	CleanOptions
	store   store.Store
	ledger  *ledger.Ledger
	witness *fingerprints.Witness
	keep    []uint64 // first bytes of the keys that tables name, sorted
	stale   []uint64 // of records that go, sorted
	remove  []string
	seen    Cleaned
}

// Clean removes from a finished output what its tables do not name: results of rows no longer in the input, and
// leftovers of killed runs. It touches no file that latentbeam does not write. It takes some 50 bytes of memory a
// row.
func Clean(ctx context.Context, s store.Store, o CleanOptions) (Cleaned, error) {
	c := &cleaner{CleanOptions: o, store: s, seen: Cleaned{Output: s.URL(), Applied: o.Apply}}
	if err := idle(ctx, s); err != nil {
		return c.seen, err
	}
	var free []string
	if o.Apply {
		release, err := s.Lock(ctx, ".lock", "latentbeam clean")
		if err != nil {
			return c.seen, err
		}
		defer release()
		if free, err = locks(ctx, s); err != nil {
			return c.seen, err
		}
		for _, name := range free { // a shard may have begun
			if err := s.Held(ctx, name); err != nil {
				return c.seen, err
			}
		}
	}
	if err := c.findStale(ctx); err != nil {
		return c.seen, err
	}
	defer c.ledger.Close()
	if !o.Apply {
		return c.seen, nil
	}
	return c.seen, c.apply(ctx, free)
}

// locks are the names of the locks of shards.
func locks(ctx context.Context, s store.Store) (names []string, err error) {
	all, err := store.Names(ctx, s, ".", store.Flat)
	for _, name := range all {
		if strings.HasSuffix(name, "lock") && name != ".lock" {
			names = append(names, name)
		}
	}
	return names, err
}

// findStale finds what is stale. The ledger is open when it returns nil.
func (c *cleaner) findStale(ctx context.Context) (err error) {
	if c.witness, err = fingerprints.LoadWitness(ctx, c.store); err != nil {
		return err
	}
	if err := c.named(ctx); err != nil {
		return err
	}
	if c.ledger, err = ledger.Open(ctx, c.store); err != nil {
		return err
	}
	err = c.records(ctx)
	if err == nil {
		err = c.files(ctx)
	}
	if err != nil {
		c.ledger.Close()
	}
	return err
}

// named reads the keys that the tables of a finished output name.
func (c *cleaner) named(ctx context.Context) error {
	s, err := report.ReadSummary(ctx, c.store, "summary.json")
	if err != nil || s.State != report.Complete {
		return fault.Usage(fmt.Errorf("clean %s: the output is not finished (no summary.json with state %q), so it is not known "+
			"which rows are wanted; run its job to the end first", c.store.URL(), report.Complete))
	}
	j := report.Job{Output: &fingerprints.Output{Store: c.store, Witness: c.witness}}
	if !j.AsWritten(ctx, s.Files, fingerprints.LookAtMarks) {
		return fault.Usage(fmt.Errorf("clean %s: a table is damaged, so it is not known which rows are wanted; mend it first: "+
			"latentbeam verify %s --repair", c.store.URL(), c.store.URL()))
	}
	c.keep, err = keysOf(ctx, c.store, s.Files)
	c.seen.Rows = int64(len(c.keep))
	return err
}

// keysOf returns the first bytes of the keys that the tables among the files of a report name, sorted.
func keysOf(ctx context.Context, s store.Store, files report.Files) (keys []uint64, err error) {
	for name := range files {
		if !strings.HasPrefix(name, "tables/") {
			continue
		}
		err := tables.EachRow(ctx, s, name, func(row keyRow) error {
			if key, err := schemas.ParseKey(row.Key); err == nil { // a row that could not be read has none
				keys = append(keys, fingerprint(key))
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil
}

func fingerprint(key [32]byte) uint64 { return binary.BigEndian.Uint64(key[:]) }

func (c *cleaner) kept(key uint64) bool {
	_, found := slices.BinarySearch(c.keep, key)
	return found
}

// records finds the records that go. The age of one is that of its video; one without a video has none, and stays where
// an age is asked for.
func (c *cleaner) records(ctx context.Context) error {
	sizes := c.store.Sizes(ctx)
	defer sizes.Close()
	err := c.ledger.Each(ctx, func(_ ledger.Ref, rec ledger.Record) error {
		if c.kept(fingerprint(rec.Key)) {
			return nil
		}
		if c.OlderThan > 0 {
			var r schemas.Result
			if json.Unmarshal(rec.Row, &r) != nil || r.Video == nil {
				return nil
			}
			info, err := sizes.Of(ctx, cmp.Or(r.Video.Path, r.Video.Poster))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			if err == nil && !c.old(info) {
				return nil
			}
		}
		c.stale = append(c.stale, fingerprint(rec.Key))
		return nil
	})
	slices.Sort(c.stale)
	c.seen.Records = int64(len(c.stale))
	return err
}

func (c *cleaner) old(info store.Info) bool {
	return c.OlderThan == 0 || c.Now.Sub(time.Unix(0, info.Time)) > c.OlderThan
}

// files finds the files that go: those of keys that no table names, and those of killed runs.
func (c *cleaner) files(ctx context.Context) error {
	cursor := c.ledger.Cursor()
	defer cursor.Close()
	for _, prefix := range []string{"posters/", "videos/", "ledger/steps/"} {
		for info, err := range c.store.List(ctx, prefix, store.Deep) {
			if err != nil {
				return err
			}
			why, err := c.unwanted(cursor, info)
			if err != nil {
				return err
			}
			if why == "" {
				continue
			}
			if !c.old(info) {
				c.seen.Young++
				continue
			}
			c.seen.Files++
			c.seen.Bytes += info.Size
			c.remove = append(c.remove, info.Name)
			if len(c.seen.Listed) < maxFindings {
				c.seen.Listed = append(c.seen.Listed, Finding{"stale", info.Name, why})
			}
		}
	}
	return nil
}

// unwanted says why a file can go, "" where it stays.
func (c *cleaner) unwanted(cursor *ledger.Cursor, info store.Info) (string, error) {
	if strings.HasPrefix(info.Name, "ledger/steps/") {
		return "the steps of a row whose job is finished", nil
	}
	what, key := classOf(info.Name)
	if what != video && what != poster {
		return "", nil // not ours
	}
	if !c.kept(fingerprint(key)) {
		return "no table names its row", nil
	}
	rec, err := cursor.Find(ledger.Key(key))
	if err != nil {
		return "", err
	}
	var r schemas.Result
	if rec.Status == ledger.Done && json.Unmarshal(rec.Row, &r) == nil && r.Video != nil &&
		info.Name != r.Video.Path && info.Name != r.Video.Poster {
		return "its row has another file now", nil
	}
	return "", nil
}

// apply removes what was found, the records first: what has no record is found again.
func (c *cleaner) apply(ctx context.Context, free []string) (err error) {
	if c.seen.Partial, err = c.store.CleanTemps(ctx, free...); err != nil {
		return err
	}
	if len(c.stale) > 0 {
		err := c.ledger.Compact(ctx, func(rec ledger.Record) (keepRecord, keepBlobs bool) {
			_, gone := slices.BinarySearch(c.stale, fingerprint(rec.Key))
			if gone {
				c.witness.SetRow(rec.Key, fingerprints.RowState{})
			}
			return !gone, !gone
		})
		if err != nil {
			return err
		}
	}
	for _, name := range c.remove {
		if err := c.store.Remove(ctx, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return c.witness.Save(ctx, c.store, "", c.kept)
}
