package s3

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/internal/storage/store/bucket"
	"latentbeam/internal/storage/store/bucket/buckettest"
	"latentbeam/internal/storage/store/storetest"
	"latentbeam/internal/system/testaid"
	"latentbeam/schemas/fault"
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

// TestWrongProfile: a profile without credentials is refused; keys in the environment win over it.
func TestWrongProfile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(file, []byte("[mine]\naws_access_key_id = a\naws_secret_access_key = b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
	t.Setenv("AWS_CONFIG_FILE", file+".none")
	for _, c := range []struct{ profile, key, want string }{
		{"mine", "", ""}, {"", "", ""}, {"other", "key", ""}, {"other", "", `AWS_PROFILE is "other": `},
	} {
		t.Setenv("AWS_PROFILE", c.profile)
		t.Setenv("AWS_ACCESS_KEY_ID", c.key)
		t.Setenv("AWS_SECRET_ACCESS_KEY", c.key)
		_, err := Open(t.Context(), bucket.Address{Scheme: "s3", Bucket: "b"}, nil, bucket.Options{})
		if c.want == "" && err != nil || c.want != "" && (fault.ExitCode(err) != fault.ExitUsage || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
