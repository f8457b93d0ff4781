package s3

import (
	"context"
	"strings"
	"testing"

	"latentbeam/internal/storage/store/bucket"
	"latentbeam/internal/storage/store/bucket/buckettest"
	"latentbeam/internal/storage/store/storetest"
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

func TestHistories(t *testing.T) { buckettest.Histories(t, buckettest.S3(t), open) }

// TestHistoriesFindLies: if a service ignores conditions, the check of histories finds a result that no order of the calls explains.
func TestHistoriesFindLies(t *testing.T) {
	for _, b := range buckettest.Behaviours("")[1:4] { // conditions are ignored, all or one of them
		server := buckettest.S3(t)
		server.Use(t)
		server.Behave(b)
		const most = 20
		found := false
		for seed := range uint64(most) {
			if _, err := storetest.TryHistory(t, buckettest.Output(server, open), seed); err != nil && strings.Contains(err.Error(), "Illegal") {
				t.Logf("%s, history %d: %v", b.Name, seed, err)
				found = true
				break
			}
		}
		if !found {
			t.Errorf("%s: %d histories show nothing", b.Name, most)
		}
	}
}

func TestSecrets(t *testing.T) { buckettest.Secrets(t, buckettest.S3(t), open) }
