package fingerprints

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"latentbeam/internal/storage/store"
)

// The files in which a witness is saved. A shard's file names start with its part.
const (
	folder    = "runs/"
	filesName = "files.json"
	rowsName  = "rows.bin"
)

// rows.bin has the magic, the rows one after another, and the CRC-32C of everything before. Numbers are little endian.
const (
	magic    = "LBROWS1\n"
	rowBytes = 24
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// saved is the content of files.json.
type saved struct {
	Schema int                  `json:"schema"`
	Files  map[string]FileState `json:"files"`
}

// IsWitnessFile reports whether name is the name of a file of a witness.
func IsWitnessFile(name string) bool {
	rest, found := strings.CutPrefix(name, folder)
	return found && !strings.Contains(rest, "/") && (strings.HasSuffix(rest, filesName) || strings.HasSuffix(rest, rowsName))
}

// RemoveRows removes what all shards remembered about videos and posters, because these will change.
func RemoveRows(ctx context.Context, s store.Store) error {
	names, err := store.Names(ctx, s, folder, store.Flat)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !IsWitnessFile(name) || !strings.HasSuffix(name, rowsName) {
			continue
		}
		if err := s.Remove(ctx, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// LoadWitness reads what a run over all rows and the shards of a job have remembered. Unreadable entries are ignored.
func LoadWitness(ctx context.Context, s store.Store) (*Witness, error) {
	w := &Witness{files: map[string]FileState{}}
	names, err := store.Names(ctx, s, folder, store.Flat)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if !IsWitnessFile(name) {
			continue
		}
		if strings.HasSuffix(name, filesName) {
			err = w.loadFiles(ctx, s, name)
		} else {
			err = w.loadRows(ctx, s, name)
		}
		if ctx.Err() != nil {
			return nil, err
		}
		if err != nil {
			slog.Debug("a file is not used that tells how the output looked", "file", name, "error", err)
		}
	}
	slices.SortStableFunc(w.rows, func(a, b keyedRow) int { return cmp.Compare(a.key, b.key) })
	w.rows = slices.CompactFunc(w.rows, func(a, b keyedRow) bool { return a.key == b.key })
	return w, nil
}

func (w *Witness) loadFiles(ctx context.Context, s store.Store, name string) error {
	data, err := store.ReadFile(ctx, s, name)
	if err != nil {
		return err
	}
	var f saved
	if err := json.Unmarshal(data, &f); err != nil {
		return err
	}
	if f.Schema != 1 {
		return errors.New("a newer program wrote it")
	}
	maps.Copy(w.files, f.Files)
	return nil
}

func (w *Witness) loadRows(ctx context.Context, s store.Store, name string) error {
	f, err := s.Open(ctx, name)
	if err != nil {
		return err
	}
	defer f.Close()
	count := (f.Size() - int64(len(magic)) - crc32.Size) / rowBytes
	if f.Size() < int64(len(magic))+crc32.Size || int64(len(magic))+crc32.Size+count*rowBytes != f.Size() {
		return errors.New("it is cut short")
	}
	sum := crc32.New(castagnoli)
	in := bufio.NewReaderSize(io.NewSectionReader(f, 0, f.Size()), 1<<20)
	body := io.TeeReader(in, sum)
	head := make([]byte, len(magic))
	if _, err := io.ReadFull(body, head); err != nil || string(head) != magic {
		return errors.Join(err, errors.New("it does not begin as it should"))
	}
	rows := make([]keyedRow, 0, count)
	var b [rowBytes]byte
	for range count {
		if _, err := io.ReadFull(body, b[:]); err != nil {
			return err
		}
		rows = append(rows, keyedRow{binary.LittleEndian.Uint64(b[:]),
			RowState{binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])}})
	}
	if _, err := io.ReadFull(in, b[:crc32.Size]); err != nil {
		return err
	}
	if binary.LittleEndian.Uint32(b[:]) != sum.Sum32() {
		return errors.New("its checksum is wrong")
	}
	w.rows = append(w.rows, rows...)
	return nil
}

// Save writes what has changed since LoadWitness. The witness of all rows replaces those of shards. The caller must hold the
// lock of the part. mine reports whether a row belongs to the part, by the first eight bytes of its key.
func (w *Witness) Save(ctx context.Context, s store.Store, part string, mine func(key uint64) bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.changed {
		return nil
	}
	w.merge(mine)
	err := s.Replace(ctx, folder+part+filesName, func(out io.Writer) error {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(saved{1, w.files})
	})
	if err == nil {
		err = s.Replace(ctx, folder+part+rowsName, w.writeRows)
	}
	if err != nil {
		return err
	}
	w.changed = false
	if part != "" {
		return nil
	}
	names, err := store.Names(ctx, s, folder, store.Flat)
	for _, name := range names {
		if IsWitnessFile(name) && name != folder+filesName && name != folder+rowsName {
			if gone := s.Remove(ctx, name); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
				err = errors.Join(err, gone)
			}
		}
	}
	return err
}

// merge adds the fresh rows and removes the rows of other parts.
func (w *Witness) merge(mine func(key uint64) bool) {
	all := slices.DeleteFunc(w.rows, func(r keyedRow) bool { _, newer := w.fresh[r.key]; return newer || !mine(r.key) })
	for key, r := range w.fresh {
		if r.Mark != 0 && mine(key) {
			all = append(all, keyedRow{key, r})
		}
	}
	slices.SortFunc(all, func(a, b keyedRow) int { return cmp.Compare(a.key, b.key) })
	w.rows, w.fresh = all, nil
}

func (w *Witness) writeRows(out io.Writer) error {
	sum := crc32.New(castagnoli)
	buffered := bufio.NewWriterSize(out, 1<<20)
	writeBoth(buffered, sum, []byte(magic))
	for _, r := range w.rows {
		var b [rowBytes]byte
		binary.LittleEndian.PutUint64(b[:], r.key)
		binary.LittleEndian.PutUint64(b[8:], r.Mark)
		binary.LittleEndian.PutUint64(b[16:], r.Poster)
		writeBoth(buffered, sum, b[:])
	}
	var end [crc32.Size]byte
	binary.LittleEndian.PutUint32(end[:], sum.Sum32())
	writeBoth(buffered, sum, end[:])
	return buffered.Flush() // it returns the first error
}

func writeBoth(w *bufio.Writer, sum hash.Hash, b []byte) {
	_, _ = w.Write(b) // Flush returns the error
	sum.Write(b)
}
