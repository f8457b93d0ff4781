package restarts

import (
	"context"
	"strings"
	"testing"
	"time"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/stages"
)

// TestFinishedRowsAreNotKept: a row is published as soon as it is done, also at the end of a bundle, while another row is
// still in an earlier stage or the same stage. It does not wait for the other row.
func TestFinishedRowsAreNotKept(t *testing.T) {
	for runner, places := range map[string][]string{"local": {"encode_text", "denoise", "encode_video"}, "prism": {"denoise"}} {
		for _, before := range places {
			t.Run(runner+" "+before, func(t *testing.T) {
				if runner == "prism" {
					jobtest.NeedPrism(t)
				}
				t.Parallel()
				open := make(chan bool)
				slow := jobtest.Passive("slow", func(ctx context.Context, batch []*stages.Element) error {
					if batch[0].Row.Prompt == "slow" {
						select {
						case <-open:
						case <-ctx.Done():
						}
					}
					return nil
				})
				j := jobtest.NewJob(t, "prompt\na\nslow\nb\nc\n")
				j.Specs = append(j.Specs, slow)
				j.Stages = strings.Replace("[encode_text, denoise, decode_vae, encode_video]", before, "slow, "+before, 1)
				j.Sets = []string{"resources.batch_size=1", "resources.workers=2", "runner=" + runner}
				opened, err := j.Open()
				jobtest.Must(t, err)
				defer opened.Close()
				done := make(chan error, 1)
				go func() {
					_, err := opened.Run(t.Context(), nil)
					done <- err
				}()
				began := time.Now()
				for opened.Progress().Done.Load() < 3 {
					if time.Since(began) > time.Minute {
						t.Errorf("%d of 3 rows are published while the slow row is computed", opened.Progress().Done.Load())
						break
					}
					time.Sleep(10 * time.Millisecond)
				}
				close(open)
				jobtest.Must(t, <-done)
			})
		}
	}
}
