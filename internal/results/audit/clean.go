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

// CleanOptions are the options of Clean.
type CleanOptions struct {
	Apply     bool          // removes files; otherwise Clean only lists them
	OlderThan time.Duration // minimal age of what is removed; 0: any
	Now       time.Time
}

// Cleaned counts what was removed or would be removed.
type Cleaned struct {
	Output   string    `json:"output"`
	Applied  bool      `json:"applied"`
	Rows     int64     `json:"rows"` // rows in the tables, which stay
	Records  int64     `json:"records"`
	Files    int64     `json:"files"`
	Bytes    int64     `json:"bytes"`     // size of the files
	Partial  int       `json:"partial"`   // temporary files of killed runs; 0 without Apply
	TooYoung int64     `json:"too_young"` // files that stay because they are younger than OlderThan
	Listed   []Finding `json:"listed"`    // the files, at most maxFindings
}

// cleaner is a Clean in progress.
type cleaner struct {
	CleanOptions
	store   store.Store
	ledger  *ledger.Ledger
	witness *fingerprints.Witness
	keep    []uint64 // first bytes of the keys in the tables, sorted
	stale   []uint64 // first bytes of the keys of records to remove, sorted
	remove  []string // files to remove
	seen    Cleaned
}

// Clean removes from a finished output everything that its tables do not name: results of rows that are no longer in the input, and
// temporary files of killed runs. It removes only files that latentbeam writes. It uses about 50 bytes of memory per
// row.
func Clean(ctx context.Context, s store.Store, o CleanOptions) (Cleaned, error) {
	c := &cleaner{CleanOptions: o, store: s, seen: Cleaned{Output: s.URL(), Applied: o.Apply}}
	if err := checkIdle(ctx, s); err != nil {
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
		for _, name := range free { // a shard may have started since checkIdle
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

// locks returns the names of the locks of shards.
func locks(ctx context.Context, s store.Store) (names []string, err error) {
	all, err := store.Names(ctx, s, ".", store.Flat)
	for _, name := range all {
		if strings.HasSuffix(name, "lock") && name != ".lock" {
			names = append(names, name)
		}
	}
	return names, err
}

// findStale finds the records and files to remove. If it returns nil, the ledger is open.
func (c *cleaner) findStale(ctx context.Context) (err error) {
	if c.witness, err = fingerprints.LoadWitness(ctx, c.store); err != nil {
		return err
	}
	if err := c.readKeys(ctx); err != nil {
		return err
	}
	if c.ledger, err = ledger.Open(ctx, c.store); err != nil {
		return err
	}
	err = c.findRecords(ctx)
	if err == nil {
		err = c.findFiles(ctx)
	}
	if err != nil {
		c.ledger.Close()
	}
	return err
}

// readKeys reads the keys in the tables. It returns an error if the output is not finished or a table is damaged.
func (c *cleaner) readKeys(ctx context.Context) error {
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

// keysOf returns the sorted first bytes of the keys in the tables among the files of a report.
func keysOf(ctx context.Context, s store.Store, files report.Files) (keys []uint64, err error) {
	for name := range files {
		if !strings.HasPrefix(name, "tables/") {
			continue
		}
		err := tables.EachRow(ctx, s, name, func(row keyRow) error {
			if key, err := schemas.ParseKey(row.Key); err == nil { // an input row that could not be read has no key
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

// fingerprint returns the first bytes of a key.
func fingerprint(key [32]byte) uint64 { return binary.BigEndian.Uint64(key[:]) }

// named reports whether the tables name a key.
func (c *cleaner) named(key uint64) bool {
	_, found := slices.BinarySearch(c.keep, key)
	return found
}

// findRecords finds the records to remove. The age of a record is the age of its video. With OlderThan, records without a video
// stay, because their age is not known.
func (c *cleaner) findRecords(ctx context.Context) error {
	sizes := c.store.Sizes(ctx)
	defer sizes.Close()
	err := c.ledger.Each(ctx, func(_ ledger.Ref, rec ledger.Record) error {
		if c.named(fingerprint(rec.Key)) {
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
			if err == nil && !c.oldEnough(info) {
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

// oldEnough reports whether a file is older than OlderThan.
func (c *cleaner) oldEnough(info store.Info) bool {
	return c.OlderThan == 0 || c.Now.Sub(time.Unix(0, info.Time)) > c.OlderThan
}

// findFiles finds the files to remove: files of keys that no table names, and saved steps.
func (c *cleaner) findFiles(ctx context.Context) error {
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
			if !c.oldEnough(info) {
				c.seen.TooYoung++
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

// unwanted returns the reason to remove a file; "": it stays.
func (c *cleaner) unwanted(cursor *ledger.Cursor, info store.Info) (string, error) {
	if strings.HasPrefix(info.Name, "ledger/steps/") {
		return "the steps of a row whose job is finished", nil
	}
	what, key := classOf(info.Name)
	if what != video && what != poster {
		return "", nil // not a file of latentbeam
	}
	if !c.named(fingerprint(key)) {
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

// apply removes what was found. It removes records first: if it is interrupted, the next Clean still finds the files without a
// record.
func (c *cleaner) apply(ctx context.Context, free []string) (err error) {
	if c.seen.Partial, err = c.store.CleanTemps(ctx, free...); err != nil {
		return err
	}
	if len(c.stale) > 0 {
		err := c.ledger.Compact(ctx, func(rec ledger.Record) (keepRecord, keepBlobs bool) {
			_, stale := slices.BinarySearch(c.stale, fingerprint(rec.Key))
			if stale {
				c.witness.SetRow(rec.Key, fingerprints.RowState{})
			}
			return !stale, !stale
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
	return c.witness.Save(ctx, c.store, "", c.named)
}
