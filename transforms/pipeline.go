package transforms

import "github.com/apache/beam/sdks/v2/go/pkg/beam"

// Pipeline returns the whole pipeline of a job: read, key, bucket, every stage in turn, publish. If spread is true, the job
// runs in several processes: the submitter has read and keyed the rows, the locations of their blocks cross a shuffle, and
// each part of the shuffle is one bundle.
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
