// Package tables names and finds the files of an output's tables.
//
// Each table has a folder, so that all files in a folder have one schema: tables/latents/00000.parquet, or
// tables/latents/00001-of-00004-00000.parquet for a shard. Earlier releases wrote tables/latents-00000.parquet. Readers accept both
// places. Reports are written only to the new place; a file in the old place is removed when its rows are on disk in the new
// one.
package tables

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"latentbeam/internal/storage/store"
	"latentbeam/internal/table/typed"
	"latentbeam/schemas"
)

// Names lists the tables of an output. WithTensors lists the tables that hold tensors.
var (
	Names       = []string{"videos", "failures", "latents", "embeddings"}
	WithTensors = []string{"embeddings", "latents"}
)

// path matches the name of a table's file. Its groups are the table, the separator, the part of a shard, and the number.
var path = regexp.MustCompile(`^tables/(` + strings.Join(Names, "|") + `)([-/])((?:[0-9]{5}-of-[0-9]{5}-)?)([0-9]{5})\.parquet$`)

// Of returns the table to which a file of an output belongs; "": none.
func Of(name string) string {
	if m := path.FindStringSubmatch(name); m != nil {
		return m[1]
	}
	return ""
}

// HasTensors reports whether a file belongs to a table of tensors.
func HasTensors(name string) bool { return slices.Contains(WithTensors, Of(name)) }

// InOldPlace reports whether a file of a table is in the place of earlier releases.
func InOldPlace(name string) bool {
	m := path.FindStringSubmatch(name)
	return m != nil && m[2] == "-"
}

// File returns the name of file number i of a table. part is the prefix of a shard's files; "": all rows.
func File(table, part string, i int) string {
	return fmt.Sprintf("tables/%s/%s%05d.parquet", table, part, i)
}

// PartOf returns the part to which a file of a table belongs; "": all rows.
func PartOf(name string) string {
	if m := path.FindStringSubmatch(name); m != nil {
		return m[3]
	}
	return ""
}

// IsOf reports whether a file of a table belongs to the part.
func IsOf(part, name string) bool {
	m := path.FindStringSubmatch(name)
	return m != nil && m[3] == part
}

// Infos lists the files of a table in both places, the new place first.
func Infos(ctx context.Context, s store.Store, table string) (infos []store.Info, err error) {
	for _, separator := range []string{"/", "-"} {
		for info, err := range s.List(ctx, "tables/"+table+separator, store.Flat) {
			if err != nil {
				return nil, err
			}
			if Of(info.Name) == table {
				infos = append(infos, info)
			}
		}
	}
	return infos, nil
}

// All returns the names of a table's files in both places.
func All(ctx context.Context, s store.Store, table string) (names []string, err error) {
	infos, err := Infos(ctx, s, table)
	for _, info := range infos {
		names = append(names, info.Name)
	}
	return names, err
}

// Files returns the names of a table's files. If a run was killed after it wrote a file and before it removed the
// same file in the old place, Files leaves out the old one.
func Files(ctx context.Context, s store.Store, table string) ([]string, error) {
	names, err := All(ctx, s, table)
	there := map[string]bool{}
	for _, name := range names {
		there[name] = true
	}
	return slices.DeleteFunc(names, func(name string) bool {
		rest, old := strings.CutPrefix(name, "tables/"+table+"-")
		return old && there["tables/"+table+"/"+rest]
	}), err
}

// EachRow calls each for every row of a file of a table. It stops at the first error.
func EachRow[R schemas.Row](ctx context.Context, s store.Store, name string, each func(R) error) error {
	f, err := s.Open(ctx, name)
	if err != nil {
		return err
	}
	defer f.Close()
	for row, err := range typed.RowsOf[R](store.Address(s.URL(), name), f) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if err := each(row); err != nil {
			return err
		}
	}
	return nil
}
