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

// maxFindings limits the findings that are listed. All are counted.
const maxFindings = 1000

// maxSizes limits the listed files of which only the size is known.
const maxSizes = 20

// readers is the number of files that are read concurrently. It is high because reads from a bucket mostly wait for the network.
const readers = 8

// The kinds of findings.
const (
	Damaged   = "damaged"   // differs from what was written
	Missing   = "missing"   // does not exist
	Stale     = "stale"     // damaged or missing, but its row is in no table any more
	Unclaimed = "unclaimed" // left by a killed run, or its row is not in the ledger any more; harmless
	Foreign   = "foreign"   // not written by latentbeam
	Unsigned  = "unsigned"  // a video without its signature, which the next run of the job adds; harmless
)

// Finding is a problem with a file of an output.
type Finding struct {
	Kind string `json:"kind"`
	File string `json:"file"`
	Why  string `json:"why"`
}

// Verified is the result of Verify.
type Verified struct {
	Output     string           `json:"output"`
	Rows       int64            `json:"rows"` // rows in the ledger, failed ones included
	Files      int64            `json:"files"`
	Bytes      int64            `json:"bytes"`             // number of bytes read
	Undigested int64            `json:"without_digest"`    // files with a known size and without a known digest
	Sizes      []string         `json:"only_sizes_known"`  // names of these files, at most maxSizes
	Counts     map[string]int64 `json:"counts"`            // number of findings by kind
	Findings   []Finding        `json:"findings"`          // at most maxFindings
	Unlisted   int64            `json:"unlisted_findings"` // number of further findings
}

// Sound reports whether nothing is damaged or missing.
func (v *Verified) Sound() bool { return v.Counts[Damaged]+v.Counts[Missing] == 0 }

// Is reports whether there is a finding of the kind for the file.
func (v *Verified) Is(kind, file string) bool {
	return slices.ContainsFunc(v.Findings, func(f Finding) bool { return f.Kind == kind && f.File == file })
}

// verifier is a Verify in progress.
type verifier struct {
	store   store.Store
	ledger  *ledger.Ledger
	witness *fingerprints.Witness
	tensors tensors.Home
	marks   string // id of the marks in the output's record
	record  marking.Record
	named   []uint64 // first bytes of the keys in the tables of a finished output; nil: not known
	work    chan func() error

	mu   sync.Mutex
	seen Verified
	err  error
}

// Verify reads every byte of an output and compares it with the recorded digests. It writes nothing. It uses about 50 bytes of memory
// per row.
func Verify(ctx context.Context, s store.Store) (Verified, error) {
	if err := checkIdle(ctx, s); err != nil {
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
		v.named, _ = keysOf(ctx, v.store, s.Files) // files below reports a table that cannot be read
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

// readings reads the segments of the ledger of readings.
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

// unknownMarks says that the marks of rows cannot be checked.
const unknownMarks = "?"

// checkMarks records a finding if a row's file has other marks than the output's record. A file that a program wrote has no
// marks.
func (v *verifier) checkMarks(key schemas.Key, file *schemas.VideoFile) {
	switch {
	case v.marks == unknownMarks:
	case v.record.LacksSignature(file):
		v.find(Unsigned, file.Path, "it waits for its signature: run the job again, which signs it")
	case file.Marks != "" && file.Marks != v.marks:
		v.findLost(Damaged, file.Path, fmt.Sprintf("it has the marks %s, and %s says %s", file.Marks, marking.Name, cmp.Or(v.marks, "none")), key)
	}
}

// checkIdle returns an error while a run works on the output, because files that the run has not written yet would count as missing.
func checkIdle(ctx context.Context, s store.Store) error {
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

// rowKey matches the key of a row in a finding.
var rowKey = regexp.MustCompile(`\brow ([0-9a-f]{64})`)

// nameRows replaces keys of rows in findings by their ids, if the tables have them.
func (v *verifier) nameRows(ctx context.Context) {
	if !slices.ContainsFunc(v.seen.Findings, func(f Finding) bool { return rowKey.MatchString(f.Why) || byKey.MatchString(f.File) }) {
		return
	}
	ids, err := IDs(ctx, v.store)
	if err != nil {
		return // there is a finding for the table that cannot be read
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

// find records a finding.
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

// findLost records that a file of a row is damaged or missing. If no table names the row, nobody needs the file, and it is only
// stale.
func (v *verifier) findLost(kind, file, why string, key schemas.Key) {
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

// list passes every object to the workers, with the digest that it should have.
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
		case ledgerFile, markRecord: // segments and markRecord have read them
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
		return v.compare(ctx, info, size, want, func(why string) { v.findLost(Damaged, info.Name, why, key) })
	}
}

// compare compares a file with its expected size and digest. Size 0 and digest "" mean not known. The digest may be only the first 16
// digits, which a witness stores. compare calls damaged with the reason if they differ.
func (v *verifier) compare(ctx context.Context, info store.Info, size int64, want string, damaged func(why string)) error {
	if size > 0 && info.Size != size {
		damaged(fmt.Sprintf("it has %d bytes, %d were written", info.Size, size))
		return nil
	}
	sum, err := fingerprints.Sum(ctx, v.store, info.Name)
	if v.findUnreadable(info.Name, err) {
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

// findUnreadable records that a file is missing or cannot be read, and reports whether err was such an error. It does not record
// errors of a store that does not answer.
func (v *verifier) findUnreadable(name string, err error) bool {
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

// file compares a table, a page or a file of facts with its recorded digest.
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
		return v.readTable(ctx, info.Name)
	case what == facts && !found:
		data, err := store.ReadFile(ctx, v.store, info.Name)
		if err == nil && !json.Valid(data) {
			v.find(Damaged, info.Name, "it is no JSON")
		}
		return err
	}
	return nil
}

// readTable reads a table without a recorded digest. This detects most damage, because pages of parquet have checksums.
func (v *verifier) readTable(ctx context.Context, name string) error {
	err := tables.EachRow(ctx, v.store, name, func(anyRow) error { return nil })
	if v.findUnreadable(name, err) {
		return nil
	}
	return err
}

// records finds files that the ledger, a summary or the witness names and that do not exist.
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
		v.checkMarks(schemas.Key(rec.Key), r.Video)
		for _, name := range []string{r.Video.Path, r.Video.Poster} {
			if name == "" {
				continue
			}
			if found, err := there(name); err != nil {
				return err
			} else if !found {
				v.findLost(Missing, name, "row "+schemas.Key(rec.Key).String()+" is done, and its file is gone", schemas.Key(rec.Key))
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

// expected returns the files that the summaries and the witness name.
func (v *verifier) expected(ctx context.Context) ([]string, error) {
	all := v.witness.Files()
	roots, err := store.Names(ctx, v.store, "", store.Flat)
	for _, name := range roots {
		if !strings.HasSuffix(name, "summary.json") {
			continue
		}
		s, err := report.ReadSummary(ctx, v.store, name)
		if err != nil { // file has recorded a finding for it
			continue
		}
		for file := range s.Files {
			all = append(all, file)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), err
}
