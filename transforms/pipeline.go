package transforms

import "github.com/apache/beam/sdks/v2/go/pkg/beam"

// Pipeline puts the whole job together: read, key, bucket, every stage in turn, publish.
func Pipeline(spec []byte, steps []string) *beam.Pipeline {
	p, s := beam.NewPipelineWithRoot()
	batches := Bucket(s, spec, Key(s, spec, Read(s, spec)))
	for i, name := range steps {
		batches = Stage(s, spec, name, i, batches)
	}
	Publish(s, spec, batches)
	return p
}
