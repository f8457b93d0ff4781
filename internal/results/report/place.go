package report

import (
	"context"
	"log/slog"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"latentbeam/internal/results/gallery"
	"latentbeam/internal/results/tables"
	"latentbeam/internal/results/tensors"
	"latentbeam/internal/storage/fingerprints"
	"latentbeam/internal/storage/store"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// place is where the files of one report are: the output, and the part of a shard.
type place struct {
	output  *fingerprints.Output
	tensors *tensors.Home
	part    string // part of the shard; "": all rows
}

// table returns the name of file number i of a table.
func (p place) table(name string, i int) string { return tables.File(name, p.part, i) }

// removeFrom removes the files of a table that the job no longer has: the files with number i and higher, and all files in the
// place of earlier releases.
func (p place) removeFrom(ctx context.Context, table string, i int) error {
	names, err := tables.All(ctx, p.output.Store, table)
	if err != nil {
		return err
	}
	keep := make([]string, i)
	for k := range keep {
		keep[k] = p.table(table, k)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !tables.IsOf(p.part, name) || slices.Contains(keep, name) })
	return p.tensors.Remove(ctx, names...)
}

// An output is written by one run for all rows, or by several shards. The names of a shard's files contain its number and the
// number of shards. Files of both kinds in one output would contain every row twice. So each run removes the files of
// other layouts.

var (
	shardOf = regexp.MustCompile(`(?:^|[/.-])[0-9]{5}-of-([0-9]{5})-`)
	ofJob   = regexp.MustCompile(`^(?:[0-9]{5}-of-[0-9]{5}-)?(?:summary\.json|metadata\.parquet|index(?:-[0-9]+)?\.html)$`)
)

// Layout returns the number of shards, as five digits, from the name of a lock or of a file of the report; "": a run over all
// rows.
func Layout(name string) string {
	if m := shardOf.FindStringSubmatch(name); m != nil {
		return m[1]
	}
	return ""
}

// removeOthers removes files of earlier runs that this job does not write: tables and galleries of results that it no
// longer publishes, and all files of another number of shards. The results stay, because they are in the ledger.
func (p place) removeOthers(ctx context.Context, keep map[stages.Kind]bool, pages bool) error {
	for table, kind := range map[string]stages.Kind{
		"videos": stages.KindVideo, "latents": stages.KindLatents, "embeddings": stages.KindText,
	} {
		if !keep[kind] {
			if err := p.removeFrom(ctx, table, 0); err != nil {
				return err
			}
		}
	}
	names, err := store.Names(ctx, p.output.Store, "tables/", store.Deep)
	if err != nil {
		return err
	}
	files, err := store.Names(ctx, p.output.Store, "", store.Flat)
	if err != nil {
		return err
	}
	var unwanted []string
	for _, name := range append(names, files...) {
		other := Layout(name) != Layout(p.part) && (strings.HasSuffix(name, ".parquet") || ofJob.MatchString(name))
		page := !pages && name == p.part+gallery.PageName(1) || !keep[stages.KindVideo] && name == datasetFile
		if other || page {
			unwanted = append(unwanted, name)
		}
	}
	return p.tensors.Remove(ctx, unwanted...)
}

// Files maps the files of a report, tables and pages, to their sizes in bytes.
type Files map[string]int64

// files returns the existing files of the report.
func (p place) files(ctx context.Context) (Files, error) {
	own := regexp.MustCompile(`^` + regexp.QuoteMeta(p.part) + `(index(-[0-9]+)?\.html|metadata\.parquet)$`)
	out := Files{}
	for _, table := range tables.Names {
		infos, err := tables.Infos(ctx, p.output.Store, table)
		if err != nil {
			return nil, err
		}
		for _, info := range infos {
			if tables.IsOf(p.part, info.Name) {
				out[info.Name] = info.Size
			}
		}
	}
	for info, err := range p.output.Store.List(ctx, "", store.Flat) {
		if err != nil {
			return nil, err
		}
		if own.MatchString(info.Name) {
			out[info.Name] = info.Size
		}
	}
	return out, nil
}

// AsWritten reports whether all files of a report exist and have not changed. It checks only the size of large tables of
// tensors; tensors.Home.Check has checked their contents.
func (j *Job) AsWritten(ctx context.Context, files Files, look fingerprints.Look) bool {
	sizes := j.Output.Store.Sizes(ctx)
	defer sizes.Close()
	files = maps.Clone(files)
	if files == nil {
		files = Files{}
	}
	for _, name := range []string{cardFile, croissantFile} { // summaries do not list them
		if card, known := j.Output.Witness.File(name); known && look > fingerprints.LookAtSizes {
			files[name] = card.Bytes
		}
	}
	for name, want := range files {
		info, err := sizes.Of(ctx, name)
		whole := err == nil && info.Size == want && !j.Output.IsDamaged(name)
		if whole && look > fingerprints.LookAtSizes && !tables.HasTensors(name) {
			whole, err = j.Output.IsAsWritten(ctx, info, fingerprints.LookAtAll)
		}
		if err != nil || !whole {
			slog.Warn("a file of the report is not as it was written: the report is written again", "file", name)
			return false
		}
	}
	return true
}

// OldPlaces reports whether one of the files is in the place of earlier releases.
func OldPlaces(files Files) bool {
	for name := range files {
		if tables.InOldPlace(name) {
			return true
		}
	}
	return false
}

// locate returns the location of a video as tables contain it. If the output and a video of the input are both on disk, the location
// is relative to the output, so that they can be moved together. Otherwise it is the address of the input.
func (p place) locate(v *schemas.VideoFile) string {
	folder := p.output.Store.URL()
	if v.Path != "" || strings.Contains(v.Source, "://") || strings.Contains(folder, "://") {
		return v.At()
	}
	at, err := filepath.Abs(v.Source)
	folder, absErr := filepath.Abs(folder)
	if err != nil || absErr != nil {
		return v.Source
	}
	if rel, err := filepath.Rel(folder, at); err == nil {
		at = rel
	}
	return filepath.ToSlash(at)
}
