// Package tables knows where the files of an output's tables lie.
//
// A table has a folder: tables/latents/00000.parquet, and tables/latents/00001-of-00004-00000.parquet of a shard. So a
// reader that walks a folder meets one schema. Earlier releases wrote tables/latents-00000.parquet. Both places are
// read. A report is written to the new place alone, and a file of the old place goes when its rows are on disk there.
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

// Names are the tables of an output, WithTensors those that hold tensors.
var (
	Names       = []string{"videos", "failures", "latents", "embeddings"}
	WithTensors = []string{"embeddings", "latents"}
)

// path takes the name of a table's file apart: table, separator, part of a shard, number.
var path = regexp.MustCompile(`^tables/(` + strings.Join(Names, "|") + `)([-/])((?:[0-9]{5}-of-[0-9]{5}-)?)([0-9]{5})\.parquet$`)

// Of returns the table that a file of an output belongs to, "" for none.
func Of(name string) string {
	if m := path.FindStringSubmatch(name); m != nil {
		return m[1]
	}
	return ""
}

// HasTensors reports whether a file belongs to a table of tensors.
func HasTensors(name string) bool { return slices.Contains(WithTensors, Of(name)) }

// InOldPlace reports whether a file of a table lies where earlier releases wrote it.
func InOldPlace(name string) bool {
	m := path.FindStringSubmatch(name)
	return m != nil && m[2] == "-"
}

// File names file number i of a table; part tells the files of a shard from others, "" for all rows.
func File(table, part string, i int) string {
	return fmt.Sprintf("tables/%s/%s%05d.parquet", table, part, i)
}

// PartOf is the part that a file of a table belongs to, "" for the rows of all.
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

// Infos lists the files of a table in both places, the old one last.
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

// All names the files of a table in both places.
func All(ctx context.Context, s store.Store, table string) (names []string, err error) {
	infos, err := Infos(ctx, s, table)
	for _, info := range infos {
		names = append(names, info.Name)
	}
	return names, err
}

// Files names the files of a table of an output. Where a run was killed between writing a file and removing the
// one in the old place, the old one is left out.
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

// EachRow reads every row of a file of a table, until each returns an error.
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
