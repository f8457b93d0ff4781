package transforms

import "github.com/apache/beam/sdks/v2/go/pkg/beam"

// Pipeline puts the whole job together: read, key, bucket, every stage in turn, publish. In a job that is spread over
// processes the submitter has read and keyed the rows: blocks of them cross a shuffle, and what follows is one bundle for
// each of its parts.
func Pipeline(spec []byte, steps []string, spread bool) *beam.Pipeline {
	p, s := beam.NewPipelineWithRoot()
	var rows beam.PCollection
	if spread {
		rows = Rows(s, spec)
	} else {
		rows = Key(s, spec, Read(s, spec))
	}
	batches := Bucket(s, spec, rows)
	for i, name := range steps {
		batches = Stage(s, spec, name, i, batches)
	}
	Publish(s, spec, batches)
	return p
}
