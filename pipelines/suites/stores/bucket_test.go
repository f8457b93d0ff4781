//go:build unix

package stores

import (
	"errors"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/internal/config/document"
	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/storage/store/bucket/buckettest"
	"latentbeam/internal/storage/store/open"
	"latentbeam/schemas/fault"
)

// TestJobInBuckets: a job writes the same objects to a directory and to a bucket with an unreliable network.
func TestJobInBuckets(t *testing.T) {
	directory := jobtest.Job{Prompts: jobtest.WriteTable(t, "all.csv", jobtest.SeamTable), Out: filepath.Join(t.TempDir(), "out"),
		Sets: []string{"output.rows_per_file=2"}}
	directory.MustRun(t)
	onDisk, err := open.Existing(t.Context(), directory.Out)
	jobtest.Must(t, err)
	defer onDisk.Close()
	want := jobtest.Objects(t, onDisk)
	for scheme, service := range jobtest.Buckets {
		for _, runner := range jobtest.InProcess(t) {
			t.Run(scheme+" "+runner.Name, func(t *testing.T) {
				server := service(t)
				server.Use(t)
				server.Set(buckettest.Faults{Rate: 0.05, Seed: 3})
				j := directory
				j.Out, j.Sets = scheme+"://bucket/some/out", append([]string{"runner=" + runner.Name}, j.Sets...)
				j.MustRun(t)
				if r := j.MustRun(t); !r.NothingToDo {
					t.Errorf("the second run has something to do: %+v", r)
				}
				server.Set(buckettest.Faults{})
				s, err := open.Existing(t.Context(), j.Out)
				jobtest.Must(t, err)
				defer s.Close()
				if got := jobtest.Objects(t, s); !maps.Equal(want, got) {
					t.Errorf("in a directory\n%v\nin the bucket\n%v", want, got)
				}
				jobtest.Must(t, jobtest.RemoveFirst(t, s, "videos/"))
				if r := j.MustRun(t); r.Done == 0 {
					t.Errorf("after a video was removed, the run: %+v", r)
				}
				if got := jobtest.Objects(t, s); !maps.Equal(want, got) {
					t.Errorf("after the video was computed again, the bucket has\n%v", got)
				}
			})
		}
	}
}

// TestBucketMessages: the error for a bucket that cannot be used says why, and contains no secret.
func TestBucketMessages(t *testing.T) {
	table := jobtest.WriteTable(t, "all.csv", jobtest.SeamTable)
	for scheme, service := range jobtest.Buckets {
		server := service(t)
		server.Use(t)
		for _, c := range []struct{ out, want string }{
			{scheme + "://no-such-bucket/out", "no such bucket"},
			{scheme + "://key:" + buckettest.SecretKey + "@bucket/out", "credentials"},
		} {
			_, err := jobtest.Job{Prompts: table, Out: c.out}.Run()
			var wrong *document.Error // the command line ends with exit code 2 on such an error
			usage := errors.As(err, &wrong) || fault.ExitCode(err) == fault.ExitUsage
			if err == nil || !usage || !strings.Contains(err.Error(), c.want) ||
				strings.Contains(err.Error(), buckettest.SecretKey) {
				t.Errorf("%s: got exit code %d, %v", c.out, fault.ExitCode(err), err)
			}
		}
	}
}
