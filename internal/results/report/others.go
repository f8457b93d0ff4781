package report

import (
	"context"
	"regexp"
	"strings"

	"latentbeam/internal/results/gallery"
	"latentbeam/internal/storage/store"
	"latentbeam/stages"
)

// An output is written by one run for all rows, or by several shards. Names of a shard's files have its number and the
// number of shards. With both in one output every row would be there twice, so each layout removes the files of others.

var (
	shardOf = regexp.MustCompile(`(?:^|[/.-])[0-9]{5}-of-([0-9]{5})-`)
	ofJob   = regexp.MustCompile(`^(?:[0-9]{5}-of-[0-9]{5}-)?(?:summary\.json|metadata\.parquet|index(?:-[0-9]+)?\.html)$`)
)

// Layout reads the number of shards, five digits, out of the name of a lock or of a file of the report. It is "" for a run
// over all rows.
func Layout(name string) string {
	if m := shardOf.FindStringSubmatch(name); m != nil {
		return m[1]
	}
	return ""
}

// removeOthers removes what earlier runs wrote and this job does not: tables and galleries of what is no
// longer kept, and everything of another number of shards. The results stay; they are in the ledger.
func (j *Job) removeOthers(ctx context.Context) error {
	for table, kind := range map[string]stages.Kind{
		"videos": stages.KindVideo, "latents": stages.KindLatents, "embeddings": stages.KindText,
	} {
		if !j.Keep[kind] {
			if err := j.removeFrom(ctx, table, 0); err != nil {
				return err
			}
		}
	}
	tables, err := store.Names(ctx, j.Output.Store, "tables/", store.Deep)
	if err != nil {
		return err
	}
	files, err := store.Names(ctx, j.Output.Store, "", store.Flat)
	if err != nil {
		return err
	}
	var gone []string
	for _, name := range append(tables, files...) {
		other := Layout(name) != Layout(j.Part) && (strings.HasSuffix(name, ".parquet") || ofJob.MatchString(name))
		page := !j.Keep[stages.KindVideo] && (name == j.Part+gallery.PageName(1) || name == datasetFile)
		if other || page {
			gone = append(gone, name)
		}
	}
	return j.Tensors.Remove(ctx, gone...)
}
