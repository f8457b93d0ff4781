// Package bucket is the store of an output in a bucket. It holds what buckets have in common: names, retries,
// comparing after a refused write, the lease that locks an output. A Service (internal/storage/store/gcs,
// internal/storage/store/s3) speaks to one kind of bucket.
//
// What never enters: a protocol, a credential.
package bucket
