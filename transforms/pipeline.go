package transforms

import "github.com/apache/beam/sdks/v2/go/pkg/beam"

// Pipeline puts the whole job together: read, key, bucket, every stage in turn, publish. A job that is spread over
// processes has one shuffle behind the keys, which reading gives there: what follows is one bundle for each of its parts.
func Pipeline(spec []byte, steps []string, spread bool) *beam.Pipeline {
	p, s := beam.NewPipelineWithRoot()
	rows := Read(s, spec)
	if spread {
		rows = beam.Reshuffle(s, rows)
	} else {
		rows = Key(s, spec, rows)
	}
	batches := Bucket(s, spec, rows)
	for i, name := range steps {
		batches = Stage(s, spec, name, i, batches)
	}
	Publish(s, spec, batches)
	return p
}
