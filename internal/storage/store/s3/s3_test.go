package s3

import (
	"context"
	"testing"

	"latentbeam/internal/storage/store/bucket"
	"latentbeam/internal/storage/store/bucket/buckettest"
	"latentbeam/internal/system/testaid"
)

func open(ctx context.Context, prefix string, o bucket.Options) (*bucket.Bucket, error) {
	return Open(ctx, bucket.Address{Scheme: Scheme, Bucket: buckettest.Bucket, Prefix: prefix}, nil, o)
}

func TestLaws(t *testing.T) { buckettest.Laws(t, buckettest.S3(t), open) }

func TestLawsUndisturbed(t *testing.T) {
	testaid.Long(t, "where the server behaves the laws hold, too")
	buckettest.LawsUndisturbed(t, buckettest.S3(t), open)
	buckettest.LawsUndisturbed(t, buckettest.S3(t), openSmall)
}

func TestSchedules(t *testing.T) { buckettest.Schedules(t, buckettest.S3(t), openSmall) }

func TestSecrets(t *testing.T) { buckettest.Secrets(t, buckettest.S3(t), open) }
