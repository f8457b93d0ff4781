// Package bucket implements an output in a bucket. It contains the common part of all buckets: names, retries, comparison after
// a refused write, and the lease that locks an output. A Service (internal/storage/store/gcs, internal/storage/store/s3) makes
// the requests to one kind of bucket.
//
// The package does not know protocols or credentials.
package bucket
