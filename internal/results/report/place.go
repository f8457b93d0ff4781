package report

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"latentbeam/internal/storage/store"
	"latentbeam/schemas"
)

// A table has a folder: tables/latents/00000.parquet, and tables/latents/00001-of-00004-00000.parquet of a shard. So a
// reader that walks a folder meets one schema. Earlier releases wrote tables/latents-00000.parquet. Both places are
// read. A report is written to the new place alone, and a file of the old place goes when its rows are on disk there.

// tableNames are the tables of an output.
var tableNames = []string{"videos", "failures", "latents", "embeddings"}

// tensorTables are the tables that hold tensors.
var tensorTables = []string{"embeddings", "latents"}

// tablePath takes the name of a table's file apart: table, separator, part of a shard, number.
var tablePath = regexp.MustCompile(`^tables/(` + strings.Join(tableNames, "|") + `)([-/])((?:[0-9]{5}-of-[0-9]{5}-)?)([0-9]{5})\.parquet$`)

// TableOf returns the table that a file of an output belongs to, "" for none.
func TableOf(name string) string {
	if m := tablePath.FindStringSubmatch(name); m != nil {
		return m[1]
	}
	return ""
}

// HasTensors reports whether a file belongs to a table of tensors.
func HasTensors(name string) bool { return slices.Contains(tensorTables, TableOf(name)) }

// inOldPlace reports whether a file of a table lies where earlier releases wrote it.
func inOldPlace(name string) bool {
	m := tablePath.FindStringSubmatch(name)
	return m != nil && m[2] == "-"
}

// OldPlaces reports whether one of the files lies where earlier releases wrote it.
func OldPlaces(files Files) bool {
	for name := range files {
		if inOldPlace(name) {
			return true
		}
	}
	return false
}

// tableName names file number i of a table.
func (j *Job) tableName(table string, i int) string {
	return fmt.Sprintf("tables/%s/%s%05d.parquet", table, j.Part, i)
}

// owns reports whether a file of a table belongs to this job or shard.
func (j *Job) owns(name string) bool {
	m := tablePath.FindStringSubmatch(name)
	return m != nil && m[3] == j.Part
}

// tableInfos lists the files of a table in both places, the old one last.
func tableInfos(ctx context.Context, s store.Store, table string) (infos []store.Info, err error) {
	for _, separator := range []string{"/", "-"} {
		for info, err := range s.List(ctx, "tables/"+table+separator, store.Flat) {
			if err != nil {
				return nil, err
			}
			if TableOf(info.Name) == table {
				infos = append(infos, info)
			}
		}
	}
	return infos, nil
}

// allFiles names the files of a table in both places.
func allFiles(ctx context.Context, s store.Store, table string) (names []string, err error) {
	infos, err := tableInfos(ctx, s, table)
	for _, info := range infos {
		names = append(names, info.Name)
	}
	return names, err
}

// TableFiles names the files of a table of an output. Where a run was killed between writing a file and removing the
// one in the old place, the old one is left out.
func TableFiles(ctx context.Context, s store.Store, table string) ([]string, error) {
	names, err := allFiles(ctx, s, table)
	there := map[string]bool{}
	for _, name := range names {
		there[name] = true
	}
	return slices.DeleteFunc(names, func(name string) bool {
		rest, old := strings.CutPrefix(name, "tables/"+table+"-")
		return old && there["tables/"+table+"/"+rest]
	}), err
}

// removeFrom removes the files of a table that the job no longer has: those from number i on, and those in the old
// place. Tensors that a file before number i has too need no rescue.
func (j *Job) removeFrom(ctx context.Context, table string, i int) error {
	names, err := allFiles(ctx, j.Store, table)
	if err != nil {
		return err
	}
	keep := make([]string, i)
	for k := range keep {
		keep[k] = j.tableName(table, k)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !j.owns(name) || slices.Contains(keep, name) })
	return j.removeAll(ctx, names)
}

// removeAll removes files of the report. What no other file of their tables has goes back into the ledger first.
func (j *Job) removeAll(ctx context.Context, names []string) error {
	kept := map[string][]uint64{} // by table: the keys in files that stay, sorted
	for _, name := range names {
		table := TableOf(name)
		if _, known := kept[table]; HasTensors(name) && !known {
			keys, err := j.keysWithout(ctx, table, names)
			if err != nil {
				return err
			}
			kept[table] = keys
		}
		err := j.remove(ctx, name, func(key uint64) bool {
			_, found := slices.BinarySearch(kept[table], key)
			return found
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// keysWithout returns the fingerprints of the keys in the files of a table that can be read and are not among names.
func (j *Job) keysWithout(ctx context.Context, table string, names []string) (keys []uint64, err error) {
	files, err := allFiles(ctx, j.Store, table)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if slices.Contains(names, file) || j.Damaged[file] {
			continue
		}
		t, err := j.openTensors(ctx, file)
		if away(err) {
			return nil, err
		}
		if err != nil {
			continue // it holds nothing
		}
		for text, err := range t.Keys() {
			if away(err) {
				_ = t.Close()
				return nil, err
			}
			key, keyErr := schemas.ParseKey(text)
			if err != nil || keyErr != nil {
				break
			}
			keys = append(keys, fingerprint(key))
		}
		_ = t.Close() // it was only read
	}
	slices.Sort(keys)
	return keys, nil
}
