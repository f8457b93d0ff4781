package read

import (
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"latentbeam/internal/table/typed"
)

// partition is a column in the names of a table's folders, in Hive's layout: split=train/part.parquet.
type partition struct {
	name  string
	cell  typed.Cell
	json  []byte
	field int
	also  bool // it is a field and is also carried
}

// nullPartition is the folder for rows without a value.
const nullPartition = "__HIVE_DEFAULT_PARTITION__"

// folderForm matches the name of such a folder.
var folderForm = regexp.MustCompile(`^([^=]+)=(.*)$`)

// partitionsOf returns the columns in the names of the folders directly above a file, outermost first. Integers are numbers.
func partitionsOf(file string) (all []partition) {
	folders := strings.Split(filepath.ToSlash(file), "/")
	for i := len(folders) - 2; i >= 0; i-- {
		m := folderForm.FindStringSubmatch(folders[i])
		if m == nil {
			break
		}
		p := partition{name: unescaped(m[1]), json: []byte("null")}
		if value := unescaped(m[2]); value != nullPartition {
			p.cell, p.json = textCell(value), typed.AppendJSONText(nil, value)
			if n, err := strconv.ParseInt(value, 10, 64); err == nil && strconv.FormatInt(n, 10) == value {
				p.cell, p.json = typed.Cell{Kind: typed.IntegerValue, Text: value, Int: n}, []byte(value)
			}
		}
		all = append(all, p)
	}
	slices.Reverse(all)
	return all
}

func unescaped(name string) string {
	if plain, err := url.PathUnescape(name); err == nil {
		return plain
	}
	return name
}

// partitioned adds the columns of a file's folders to its rows. A column of the file itself wins.
type partitioned struct {
	rowReader
	partitions []partition
}

// inFolders opens a file with the columns of its folders.
func inFolders(path string, n names, open openFunc) (rowReader, error) {
	all := partitionsOf(path)
	if len(all) == 0 {
		return open(path, n)
	}
	for i := range all {
		p := &all[i]
		p.field, _ = n.find(p.name)
		p.also = p.field == carried || n.carries(p.name, p.field)
		n.folders = append(n.folders, p.name)
	}
	r, err := open(path, n)
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		use := n.useOf(path, p.name, p.field)
		use.Folder = true
		n.uses.record(use)
	}
	return &partitioned{r, all}, nil
}

func (r *partitioned) next(raw *rawRow) error {
	if err := r.rowReader.next(raw); err != nil {
		return err
	}
	own := map[string]bool{}
	if len(raw.extra) > 0 {
		members(slices.Concat([]byte("{"), raw.extra, []byte("}")), func(key, _ []byte) { own[string(key)] = true })
	}
	for _, p := range r.partitions {
		if p.field != carried && raw.values[p.field].Kind == typed.Absent {
			raw.values[p.field] = p.cell
		}
		if key := typed.AppendJSONText(nil, p.name); p.also && !own[string(key)] {
			raw.carry(key, p.json)
		}
	}
	return nil
}
