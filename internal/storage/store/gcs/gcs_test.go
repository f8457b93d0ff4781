package gcs

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

func TestLaws(t *testing.T) { buckettest.Laws(t, buckettest.GCS(t), open) }

func TestLawsUndisturbed(t *testing.T) {
	testaid.Long(t, "where the server behaves the laws hold, too")
	buckettest.LawsUndisturbed(t, buckettest.GCS(t), open)
}

func TestSchedules(t *testing.T) { buckettest.Schedules(t, buckettest.GCS(t), open) }

func TestHistories(t *testing.T) { buckettest.Histories(t, buckettest.GCS(t), open) }

func TestSecrets(t *testing.T) { buckettest.Secrets(t, buckettest.GCS(t), open) }
