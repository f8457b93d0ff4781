//go:build unix

package jobtest

import (
	"testing"

	"latentbeam/internal/storage/store/bucket/buckettest"
)

// Buckets are functions that start a server for each kind of bucket.
var Buckets = map[string]func(testing.TB) *buckettest.Server{"gs": buckettest.GCS, "s3": buckettest.S3}
