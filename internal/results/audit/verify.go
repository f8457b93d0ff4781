package audit

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"sync"

	"latentbeam/internal/results/marking"
	"latentbeam/internal/results/report"
	"latentbeam/internal/results/tables"
	"latentbeam/internal/results/tensors"
	"latentbeam/internal/storage/fingerprints"
	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/storage/store"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
)

// maxFindings bounds the findings that a report names; all are counted.
const maxFindings = 1000

// maxSizes bounds how many files with a known size and no known digest are named.
const maxSizes = 20

// readers is how many files are read at a time: in a bucket each waits for the network.
const readers = 8

// The kinds of findings.
const (
	Damaged   = "damaged"   // not what was written
	Missing   = "missing"   // not there
	Stale     = "stale"     // damaged or missing, but no table names its row any more
	Unclaimed = "unclaimed" // of a run that was killed, or of a row that the ledger has forgotten; harmless
	Foreign   = "foreign"   // not latentbeam's
	Unsigned  = "unsigned"  // a video that waits for its signature, which the next run of the job gives; harmless
)

// Finding is a file of an output with something wrong.
type Finding struct {
	Kind string `json:"kind"`
	File string `json:"file"`
	Why  string `json:"why"`
}

// Verified says what Verify has found.
type Verified struct {
	Output     string           `json:"output"`
	Rows       int64            `json:"rows"` // of the ledger, failed ones included
	Files      int64            `json:"files"`
	Bytes      int64            `json:"bytes"`             // that were read
	Undigested int64            `json:"without_digest"`    // files with a known size and no known digest
	Sizes      []string         `json:"only_sizes_known"`  // the first of them
	Counts     map[string]int64 `json:"counts"`            // of findings, by kind
	Findings   []Finding        `json:"findings"`          // at most maxFindings
	Unlisted   int64            `json:"unlisted_findings"` // the others
}

// Sound reports whether nothing is damaged or missing.
func (v *Verified) Sound() bool { return v.Counts[Damaged]+v.Counts[Missing] == 0 }

// Is reports whether a finding of the kind is about the file.
func (v *Verified) Is(kind, file string) bool {
	return slices.ContainsFunc(v.Findings, func(f Finding) bool { return f.Kind == kind && f.File == file })
}

// verifier is one Verify under way.
type verifier struct {
	store   store.Store
	ledger  *ledger.Ledger
	witness *fingerprints.Witness
	tensors tensors.Home
	marks   string // the id of the marks that the output records
	record  marking.Record
	named   []uint64 // first bytes of the keys that the tables of a finished output name; nil: not known
	work    chan func() error

	mu   sync.Mutex
	seen Verified
	err  error
}

// Verify reads every byte of an output and compares it with what was recorded. It takes about 50 bytes of memory a row
// and writes nothing.
func Verify(ctx context.Context, s store.Store) (Verified, error) {
	if err := idle(ctx, s); err != nil {
		return Verified{}, err
	}
	l, err := ledger.Open(ctx, s)
	if err != nil {
		return Verified{}, err
	}
	defer l.Close()
	w, err := fingerprints.LoadWitness(ctx, s)
	if err != nil {
		return Verified{}, err
	}
	v := &verifier{store: s, ledger: l, witness: w, work: make(chan func() error, readers),
		tensors: tensors.Home{Output: &fingerprints.Output{Store: s, Witness: w}, Ledger: l},
		seen:    Verified{Output: s.URL(), Counts: map[string]int64{}}}
	if s, err := report.ReadSummary(ctx, s, "summary.json"); err == nil && s.State == report.Complete {
		v.named, _ = keysOf(ctx, v.store, s.Files) // a table that cannot be read is found damaged below
	}
	if err = v.segments(ctx, l); err == nil {
		err = v.readings(ctx)
	}
	if err == nil {
		err = v.markRecord(ctx)
	}
	if err == nil {
		err = v.files(ctx)
	}
	if err == nil {
		err = v.records(ctx)
	}
	v.nameRows(ctx)
	slices.SortFunc(v.seen.Findings, func(a, b Finding) int {
		return strings.Compare(a.Kind+"\x00"+a.File, b.Kind+"\x00"+b.File)
	})
	return v.seen, err
}

// segments reads all segments of a ledger.
func (v *verifier) segments(ctx context.Context, l *ledger.Ledger) error {
	err := l.Verify(ctx)
	for _, d := range l.Damaged() {
		lost := fmt.Sprintf("%d records are lost", d.Lost)
		if d.Lost < 0 {
			lost = "it is not known how many records are lost"
		}
		v.find(Damaged, d.Segment, fmt.Sprintf("%s at byte %d; %s", d.Why, d.Offset, lost))
	}
	return err
}

// readings reads the segments of what was read off results.
func (v *verifier) readings(ctx context.Context) error {
	l, err := ledger.OpenIn(ctx, v.store, ledger.Readings)
	if err != nil {
		return err
	}
	defer l.Close()
	return v.segments(ctx, l)
}

// markRecord reads the record of the marks.
func (v *verifier) markRecord(ctx context.Context) error {
	r, found, err := marking.Read(ctx, v.store)
	switch {
	case fault.ExitCode(err) == fault.ExitTryAgain || errors.Is(err, context.Canceled):
		return err
	case err != nil:
		v.find(Damaged, marking.Name, err.Error())
		v.marks = unknownMarks
	case r.Changing:
		v.find(Damaged, marking.Name, fmt.Sprintf("a change of the marks was cut off: `latentbeam mark %s` goes on", v.store.URL()))
		v.marks = unknownMarks
	case found:
		v.marks, v.record = r.ID(), r
	}
	return nil
}

// unknownMarks stands for marks with which those of rows are not compared.
const unknownMarks = "?"

// sameMarks finds a row whose file has other marks than the output's record says. A file that a program wrote has none.
func (v *verifier) sameMarks(key schemas.Key, file *schemas.VideoFile) {
	switch {
	case v.marks == unknownMarks:
	case v.record.LacksSignature(file):
		v.find(Unsigned, file.Path, "it waits for its signature: run the job again, which signs it")
	case file.Marks != "" && file.Marks != v.marks:
		v.lost(Damaged, file.Path, fmt.Sprintf("it has the marks %s, and %s says %s", file.Marks, marking.Name, cmp.Or(v.marks, "none")), key)
	}
}

// idle returns an error while a run works on the output, because files that the run has not finished would count as missing.
func idle(ctx context.Context, s store.Store) error {
	for info, err := range s.List(ctx, ".", store.Flat) {
		if err != nil {
			return err
		}
		if strings.HasSuffix(info.Name, "lock") {
			if err := s.Held(ctx, info.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// rowKey is a row in a finding.
var rowKey = regexp.MustCompile(`\brow ([0-9a-f]{64})`)

// nameRows names the rows of findings by their ids, where the tables have them.
func (v *verifier) nameRows(ctx context.Context) {
	if !slices.ContainsFunc(v.seen.Findings, func(f Finding) bool { return rowKey.MatchString(f.Why) || byKey.MatchString(f.File) }) {
		return
	}
	ids, err := IDs(ctx, v.store)
	if err != nil {
		return // the tables cannot be read, which is found, too
	}
	for i, f := range v.seen.Findings {
		if m := byKey.FindStringSubmatch(f.File); m != nil {
			if key, err := schemas.ParseKey(m[3]); err == nil && ids[key] != "" {
				v.seen.Findings[i].Why = fmt.Sprintf("of row %s: %s", ids[key], f.Why)
				continue
			}
		}
		v.seen.Findings[i].Why = rowKey.ReplaceAllStringFunc(f.Why, func(text string) string {
			key, err := schemas.ParseKey(strings.TrimPrefix(text, "row "))
			if id := ids[key]; err == nil && id != "" {
				return fmt.Sprintf("row %s (key %s)", id, key.String()[:12])
			}
			return text
		})
	}
}

// find notes a finding.
func (v *verifier) find(kind, file, why string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.seen.Counts[kind]++
	if len(v.seen.Findings) == maxFindings {
		v.seen.Unlisted++
		return
	}
	v.seen.Findings = append(v.seen.Findings, Finding{kind, file, why})
}

// lost notes that a file of a row is damaged or missing. If no table names the row, nobody needs the file: it is only stale.
func (v *verifier) lost(kind, file, why string, key schemas.Key) {
	if _, found := slices.BinarySearch(v.named, fingerprint(key)); v.named != nil && !found {
		kind, why = Stale, kind+": "+why
	}
	v.find(kind, file, why)
}

// files reads all objects.
func (v *verifier) files(ctx context.Context) error {
	var workers sync.WaitGroup
	for range readers {
		workers.Go(func() {
			for task := range v.work {
				if err := task(); err != nil {
					v.mu.Lock()
					v.err = errors.Join(v.err, err)
					v.mu.Unlock()
				}
			}
		})
	}
	err := v.list(ctx)
	close(v.work)
	workers.Wait()
	return errors.Join(err, v.err)
}

// list gives every object to the workers, with what it should be.
func (v *verifier) list(ctx context.Context) error {
	cursor := v.ledger.Cursor()
	defer cursor.Close()
	for info, err := range v.store.List(ctx, "", store.Deep) {
		if err != nil {
			return err
		}
		what, key := classOf(info.Name)
		task := func() error { return v.file(ctx, info, what) }
		switch what {
		case foreign:
			v.find(Foreign, info.Name, "latentbeam writes no such file; it is left alone")
			continue
		case other:
			continue
		case ledgerFile, markRecord: // read already
			v.count(info.Name, info.Size, true)
			continue
		case video, poster:
			rec, err := cursor.Find(ledger.Key(key))
			if err != nil {
				return err
			}
			if task = v.media(ctx, info, what, key, rec); task == nil {
				v.find(Unclaimed, info.Name, "no row of the ledger has it; clean removes it")
				continue
			}
		}
		select {
		case v.work <- task:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// count counts a file that was read.
func (v *verifier) count(name string, bytes int64, digested bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.seen.Files++
	v.seen.Bytes += bytes
	if digested {
		return
	}
	if v.seen.Undigested++; len(v.seen.Sizes) < maxSizes {
		v.seen.Sizes = append(v.seen.Sizes, name)
	}
}

// media returns a task that compares a video or a poster with its record, nil if the record does not name the file.
func (v *verifier) media(ctx context.Context, info store.Info, what objectClass, key schemas.Key, rec ledger.Record) func() error {
	var r schemas.Result
	if rec.Status != ledger.Done || json.Unmarshal(rec.Row, &r) != nil || r.Video == nil {
		return nil
	}
	want, size := r.Video.SHA256, r.Video.Bytes
	if what == poster {
		known, _ := v.witness.Row(key)
		want, size = "", r.Video.PosterBytes
		if known.Poster != 0 {
			want = fmt.Sprintf("%016x", known.Poster)
		}
	}
	if info.Name != r.Video.Path && info.Name != r.Video.Poster {
		return nil
	}
	return func() error {
		return v.compare(ctx, info, size, want, func(why string) { v.lost(Damaged, info.Name, why, key) })
	}
}

// compare compares a file with the size and the digest that it should have. A size of 0 and a digest of "" are not
// compared; the digest may be the first 16 digits, as a witness keeps it. damaged is called with what is wrong.
func (v *verifier) compare(ctx context.Context, info store.Info, size int64, want string, damaged func(why string)) error {
	if size > 0 && info.Size != size {
		damaged(fmt.Sprintf("it has %d bytes, %d were written", info.Size, size))
		return nil
	}
	sum, err := fingerprints.Sum(ctx, v.store, info.Name)
	if v.unread(info.Name, err) {
		return nil
	}
	if err != nil {
		return err
	}
	got := hex.EncodeToString(sum[:])
	if len(want) == 16 {
		got = fmt.Sprintf("%016x", fingerprints.HashSum(sum))
	}
	if want != "" && got != want {
		damaged(fmt.Sprintf("its SHA-256 begins with %s, that of what was written with %s", got[:16], want[:16]))
	}
	v.count(info.Name, info.Size, want != "")
	return nil
}

// unread notes that a file is missing or cannot be read, and reports whether err was such an error. Errors of a store
// that does not answer are not noted.
func (v *verifier) unread(name string, err error) bool {
	switch {
	case err == nil || fault.ExitCode(err) == fault.ExitTryAgain || errors.Is(err, context.Canceled):
		return false
	case errors.Is(err, fs.ErrNotExist):
		v.find(Missing, name, "it was removed meanwhile")
	default:
		v.find(Damaged, name, err.Error())
	}
	return true
}

// file compares a table, a page or a file of facts with what is remembered of it.
func (v *verifier) file(ctx context.Context, info store.Info, what objectClass) error {
	known, found := v.witness.File(info.Name)
	want, size := "", int64(0)
	if found {
		want, size = known.SHA256, known.Bytes
	}
	if err := v.compare(ctx, info, size, want, func(why string) { v.find(Damaged, info.Name, why) }); err != nil {
		return err
	}
	switch {
	case what == tableFile && tables.HasTensors(info.Name):
		bad, err := v.tensors.Damage(ctx, info.Name)
		for _, key := range bad {
			why := "a tensor of row " + key.String() + " is not what was written"
			if key == (schemas.Key{}) {
				why = "it cannot be read as parquet"
			}
			v.find(Damaged, info.Name, why)
		}
		return err
	case what == tableFile && !found:
		return v.parses(ctx, info.Name)
	case what == facts && !found:
		data, err := store.ReadFile(ctx, v.store, info.Name)
		if err == nil && !json.Valid(data) {
			v.find(Damaged, info.Name, "it is no JSON")
		}
		return err
	}
	return nil
}

// parses reads a table without a remembered digest. That finds damage too, because pages of parquet have checksums.
func (v *verifier) parses(ctx context.Context, name string) error {
	err := tables.EachRow(ctx, v.store, name, func(anyRow) error { return nil })
	if v.unread(name, err) {
		return nil
	}
	return err
}

// records finds files that the ledger or a summary names and the output does not have.
func (v *verifier) records(ctx context.Context) error {
	sizes := v.store.Sizes(ctx)
	defer sizes.Close()
	there := func(name string) (bool, error) {
		_, err := sizes.Of(ctx, name)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return err == nil, err
	}
	err := v.ledger.Each(ctx, func(_ ledger.Ref, rec ledger.Record) error {
		v.seen.Rows++
		var r schemas.Result
		if rec.Status != ledger.Done || json.Unmarshal(rec.Row, &r) != nil || r.Video == nil {
			return nil
		}
		v.sameMarks(schemas.Key(rec.Key), r.Video)
		for _, name := range []string{r.Video.Path, r.Video.Poster} {
			if name == "" {
				continue
			}
			if found, err := there(name); err != nil {
				return err
			} else if !found {
				v.lost(Missing, name, "row "+schemas.Key(rec.Key).String()+" is done, and its file is gone", schemas.Key(rec.Key))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	want, err := v.expected(ctx)
	for _, name := range want {
		if found, err := there(name); err != nil {
			return err
		} else if !found {
			v.find(Missing, name, "the last run wrote it")
		}
	}
	return err
}

// expected are the files that summaries and the witness name.
func (v *verifier) expected(ctx context.Context) ([]string, error) {
	all := v.witness.Files()
	roots, err := store.Names(ctx, v.store, "", store.Flat)
	for _, name := range roots {
		if !strings.HasSuffix(name, "summary.json") {
			continue
		}
		s, err := report.ReadSummary(ctx, v.store, name)
		if err != nil { // told where the file is read
			continue
		}
		for file := range s.Files {
			all = append(all, file)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), err
}
