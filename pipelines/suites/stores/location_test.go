package stores

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/internal/config/document"
	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/storage/fingerprints"
	"latentbeam/internal/storage/store/bucket/buckettest"
	"latentbeam/internal/storage/store/open"
	"latentbeam/schemas/fault"
)

// upload puts the files of a directory into a bucket.
func upload(t *testing.T, dir, url string) {
	t.Helper()
	s, err := open.Output(t.Context(), url)
	jobtest.Must(t, err)
	jobtest.Must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		return s.Replace(t.Context(), filepath.ToSlash(name), func(w io.Writer) error {
			_, err := w.Write(data)
			return err
		})
	}))
}

// unchanged runs the job of an output with its inputs in another place. All rows must be done already.
func unchanged(t *testing.T, what string, j jobtest.Job) {
	t.Helper()
	opened, err := j.Unattached()
	if err != nil {
		t.Errorf("%s: got error %v", what, err)
		return
	}
	defer opened.Close()
	jobtest.Must(t, opened.Peek(t.Context()))
	plan, err := opened.Plan(t.Context())
	if err != nil || plan.New != 0 || plan.Rows == 0 || plan.Done == 0 {
		t.Errorf("%s: the plan has %d rows, %d done and %d new, %v; want all done", what, plan.Rows, plan.Done, plan.New, err)
	}
}

// TestKeysOfAddresses: the key of a row does not depend on where its table, its files and its model are.
func TestKeysOfAddresses(t *testing.T) {
	table := jobtest.WriteTable(t, "all.csv", jobtest.SeamTable)
	made := jobtest.Job{Prompts: table, Out: filepath.Join(t.TempDir(), "out")}
	made.MustRun(t)
	decoded := jobtest.Job{Input: fmt.Sprintf("{latents: %q}", jobtest.TableFile(made.Out, "latents")), Stages: "[decode_vae, encode_video]",
		Out: filepath.Join(t.TempDir(), "out"), Sets: []string{"output.write=[video]"}}
	decoded.MustRun(t)
	encoded := jobtest.MediaJob(t, jobtest.MediaTable(t, ""), jobtest.EncodeBoth)
	encoded.MustRun(t)
	frames := jobtest.MediaJob(t, jobtest.Clips+"disc", "[encode_vae]", "output.write=[latents]")
	frames.Sets = append(frames.Sets, "defaults.num_frames=16")
	frames.MustRun(t)
	web := httptest.NewServer(http.FileServer(http.Dir(filepath.Dir(table))))
	defer web.Close()
	for scheme, service := range jobtest.Buckets {
		t.Run(scheme, func(t *testing.T) {
			server := service(t)
			server.Use(t)
			server.Set(buckettest.Faults{Rate: 0.03, Seed: 5})
			t.Setenv(fingerprints.CacheVariable, t.TempDir())
			root := scheme + "://bucket/in"
			upload(t, filepath.Dir(table), root+"/prompts")
			upload(t, filepath.Join(made.Out, "tables"), root+"/tables")
			upload(t, jobtest.Clips, root+"/media")
			upload(t, "../../../testdata/tiny", root+"/models/tiny")
			for what, at := range map[string]string{
				"a table": root + "/prompts/all.csv", "a pattern": root + "/*/a*.csv", "a web server": web.URL + "/all.csv",
			} {
				j := made
				j.Prompts = at
				unchanged(t, what, j)
			}
			j := made
			j.Sets = []string{"model=" + root + "/models/tiny"}
			unchanged(t, "a model", j)
			j.Sets = []string{fmt.Sprintf("model={text_encoder: %q, transformer: %q, vae: %q}", root+"/models/tiny/text_encoder/",
				root+"/models/tiny/transformer", root+"/models/tiny/vae")}
			unchanged(t, "parts of a model", j)
			j = decoded
			j.Input = fmt.Sprintf("{latents: %q}", root+"/tables/latents/*.parquet")
			unchanged(t, "latents", j)
			j.Out = filepath.Join(t.TempDir(), "out")
			j.MustRun(t)
			jobtest.SameRows(t, "videos", files(t, j.Out, "videos"), files(t, decoded.Out, "videos"))
			j = encoded
			j.Input = fmt.Sprintf("{media: %q"+jobtest.FramesOfRows+"}", jobtest.WriteTable(t, "clips.csv", "id,path,caption,num_frames\n"+
				"disc,"+root+"/media/disc,a red circle,16\n"+
				"square,"+root+"/media/square.y4m,a blue square,16\n"+
				"triangle,"+root+"/media/triangle.png,a green triangle,1\n"))
			unchanged(t, "media", j)
			j.Out = filepath.Join(t.TempDir(), "out")
			j.MustRun(t)
			latents := jobtest.LatentColumns(t, j.Out)
			for name, row := range latents { // the table's own columns are carried along
				latents[name] = strings.ReplaceAll(row, root+"/media/", jobtest.Clips)
			}
			jobtest.SameRows(t, "latents", latents, jobtest.LatentColumns(t, encoded.Out))
			j = frames
			j.Input = fmt.Sprintf("{media: %q}", root+"/media/disc")
			unchanged(t, "a folder of frames", j)
		})
	}
}

// files returns the names of the files in a folder of an output, each with an empty text.
func files(t *testing.T, out, name string) map[string]string {
	t.Helper()
	found := map[string]string{}
	jobtest.Must(t, filepath.WalkDir(filepath.Join(out, name), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			found[filepath.Base(path)] = ""
		}
		return err
	}))
	return found
}

// TestAddressMessages: the error for an input that cannot be read says why, and contains no secret.
func TestAddressMessages(t *testing.T) {
	t.Setenv(fingerprints.CacheVariable, t.TempDir())
	for scheme, service := range jobtest.Buckets {
		service(t).Use(t)
		root := scheme + "://bucket"
		for _, c := range []struct {
			set, want string
		}{
			{"input.prompts=" + root + "/none.csv", "there is no such file"},
			{"input.prompts=" + root + "/*.csv", "no object matches"},
			{"input.prompts=" + scheme + "://none/a.csv", "no such bucket"},
			{"input.prompts=https://host/a.csv?key=" + buckettest.SecretKey, "query"},
			{"input.prompts=https://user:" + buckettest.SecretKey + "@host/a.csv", "credentials"},
			{"model=" + root + "/none", "no files of a model"},
			{"model=https://host/model", "no address of https://"},
		} {
			_, err := jobtest.Job{Prompts: jobtest.WriteTable(t, "all.csv", jobtest.SeamTable), Out: filepath.Join(t.TempDir(), "out"),
				Sets: []string{c.set}}.Unattached()
			var wrong *document.Error
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), buckettest.SecretKey) {
				t.Errorf("%s: got error %v, want %q", c.set, err, c.want)
			} else if !errors.As(err, &wrong) && fault.ExitCode(err) != fault.ExitUsage {
				t.Errorf("%s: got exit code %d, want 2", c.set, fault.ExitCode(err))
			}
		}
	}
}
