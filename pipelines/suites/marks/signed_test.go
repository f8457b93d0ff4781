package marks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"latentbeam/internal/config"
	"latentbeam/internal/dev/browser"
	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/media/c2pa"
	"latentbeam/internal/media/marks"
	"latentbeam/internal/results/audit"
	"latentbeam/internal/results/marking"
	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/system/testaid"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// signing holds the files of a certificate and its key.
type signing struct {
	certificate, key string // paths
	secret           []byte // a line of the key
}

// newSigning makes a certificate and its key.
func newSigning(t *testing.T) (s signing) {
	t.Helper()
	certificate, key := testaid.Certificate(t, false)
	dir := t.TempDir()
	s.certificate, s.key = filepath.Join(dir, "certificate.pem"), filepath.Join(dir, "key.pem")
	jobtest.Must(t, os.WriteFile(s.certificate, certificate, 0o600))
	jobtest.Must(t, os.WriteFile(s.key, key, 0o600))
	s.secret = bytes.Split(key, []byte("\n"))[1]
	return s
}

// stages returns the stages of a job that signs.
func (s signing) stages(more string) string {
	return fmt.Sprintf("[encode_text, denoise, decode_vae, guard, encode_video: {marks: [iptc, aigc, {c2pa: {certificate: %q, key: %q%s}}]}]",
		s.certificate, s.key, more)
}

// unsigned counts the videos without a valid signature.
func unsigned(t *testing.T, out string) (n int) {
	t.Helper()
	for name, data := range filesBelow(t, out, "videos") {
		found, err := marks.Inspect(data)
		jobtest.Must(t, err)
		signed := false
		for _, f := range found {
			signed = signed || f.Name == marks.C2PA && f.Problem == "" && f.Value == marks.Generated
		}
		if !signed {
			t.Logf("%s: %v", name, found)
			n++
		}
	}
	return n
}

// TestTimeStamps: with a time stamp authority, videos are published and then signed with its time stamps. If it does not answer, the
// job fails before the first row. If it fails later, videos have no signature, and the next run signs them.
func TestTimeStamps(t *testing.T) {
	s, authority := newSigning(t), testaid.NewAuthority(t)
	j := jobtest.NewJob(t, jobtest.DiskTable)
	j.Stages = s.stages(fmt.Sprintf(", time_stamp_authority: %q", authority.URL))
	var answered atomic.Int64
	authority.Answer = func(w http.ResponseWriter) bool {
		if answered.Add(1) == 1 {
			return false
		}
		w.WriteHeader(http.StatusForbidden)
		return true
	}
	if _, err := j.Run(); fault.ExitCode(err) != fault.ExitUsage || !strings.Contains(err.Error(), "403 Forbidden") || !strings.Contains(err.Error(), "run the job again") {
		t.Errorf("an authority that fails after its first answer: got error %v", err)
	}
	if n := unsigned(t, j.Out); n != 5 {
		t.Errorf("%d videos have no signature, want 5", n)
	}
	if v := jobtest.Verified(t, j.Out); !v.Sound() || v.Undigested > 0 || v.Counts[audit.Unsigned] != 5 {
		t.Errorf("verify finds %+v", v)
	}
	authority.Answer = nil
	j.Computes(t, 0)
	asked := authority.Asked.Load()
	if n, stamps := unsigned(t, j.Out), stamped(t, j.Out); n != 0 || stamps != 5 {
		t.Errorf("%d videos have no signature, want 0; %d have a time stamp, want all", n, stamps)
	}
	if v := jobtest.Verified(t, j.Out); !v.Sound() || v.Undigested > 0 {
		t.Errorf("verify finds %+v", v)
	}
	j.Computes(t, 0)
	if now := authority.Asked.Load(); now != asked {
		t.Errorf("a run with nothing to do asked the authority %d times", now-asked)
	}

	sharded := j.Elsewhere(t)
	for i := range 2 {
		shard := sharded
		shard.Opts.Shard, shard.Opts.Shards = i, 2
		shard.MustRun(t)
	}
	if n := stamped(t, sharded.Out); n != 5 {
		t.Errorf("with shards, %d videos have a time stamp", n)
	}
	if d, err := audit.Compare(t.Context(), openDir(t, j.Out), openDir(t, sharded.Out)); err != nil || !d.Equal() || d.Marks != nil {
		t.Errorf("diff of outputs that differ only in their time stamps: %+v, %v", d, err)
	}
	plain := j.Elsewhere(t)
	plain.Stages = s.stages("")
	plain.MustRun(t)
	done, err := changeMarksIn(plain, t.Context(), config.Marks{Given: true, IPTC: true, AIGC: true, C2PA: true, Certificate: s.certificate, Key: s.key,
		TimeStampAuthority: authority.URL})
	if err != nil || done.Rows != 5 || stamped(t, plain.Out) != 5 {
		t.Errorf("mark: got %+v, %v", done, err)
	}
	if _, err := plain.Run(); fault.ExitCode(err) != fault.ExitUsage || !strings.Contains(err.Error(), authority.URL) {
		t.Errorf("a job without an authority, on an output with one: got error %v", err)
	}

	authority.Close()
	refused := j.Elsewhere(t)
	refused.Stages = s.stages(", time_stamp_authority: \"http://user:word@localhost\"")
	if _, err := refused.Run(); err == nil || !strings.Contains(err.Error(), "authorities that need one are not supported") {
		t.Errorf("an address of an authority with a password: got error %v", err)
	}
}

// stamped counts the videos whose signature has a valid time stamp.
func stamped(t *testing.T, out string) (n int) {
	t.Helper()
	for _, data := range filesBelow(t, out, "videos") {
		found, err := marks.Inspect(data)
		jobtest.Must(t, err)
		for _, f := range found {
			if f.Name == marks.C2PA && f.Problem == "" && f.StampProblem == "" && f.Time != "" {
				n++
			}
		}
	}
	return n
}

// TestSigned: videos and stills of a job with a key are signed. Runs, shards and mark produce equal files, and no file of the output
// contains the key. Another certificate, or none, is an error.
func TestSigned(t *testing.T) {
	s := newSigning(t)
	j := jobtest.NewJob(t, jobtest.DiskTable)
	j.Stages = s.stages("")
	j.MustRun(t)
	if n := unsigned(t, j.Out); n > 0 {
		t.Errorf("%d videos are not signed", n)
	}
	if v := jobtest.Verified(t, j.Out); !v.Sound() || v.Undigested > 0 {
		t.Errorf("verify finds %+v", v)
	}
	j.Computes(t, 0)
	sets := j.Elsewhere(t)
	sets.Sets = []string{"resources.workers=3", "stages.denoise.sequence_parallel=3", "resources.batch_size=1"}
	sets.MustRun(t)
	samePublished(t, "a set of three workers", j.Out, sets.Out)
	sharded := j.Elsewhere(t)
	for i := range 2 {
		shard := sharded
		shard.Opts.Shard, shard.Opts.Shards = i, 2
		shard.MustRun(t)
	}
	samePublished(t, "shards", j.Out, sharded.Out)
	plain := j.Elsewhere(t)
	plain.Stages = ""
	plain.MustRun(t)
	done, err := changeMarksIn(plain, t.Context(), config.Marks{Given: true, IPTC: true, AIGC: true, C2PA: true, Certificate: s.certificate, Key: s.key})
	if err != nil || done.Rows != 5 {
		t.Errorf("mark: got %+v, %v", done, err)
	}
	samePublished(t, "mark", j.Out, plain.Out)
	plain.Computes(t, 0) // a run with nothing to do needs no key
	for _, out := range []string{j.Out, sharded.Out, plain.Out} {
		jobtest.Must(t, filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			if bytes.Contains(data, s.secret) {
				t.Errorf("%s contains the key", path)
			}
			return err
		}))
	}

	for want, list := range map[string]string{"names no key": "", "signed with the certificate": newSigning(t).stages("")} {
		other := j
		other.Stages, other.Sets = list, []string{"defaults.guidance_scale=3"}
		if _, err := other.Run(); fault.ExitCode(err) != fault.ExitUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
	path := filepath.Join(j.Out, filepath.FromSlash(jobtest.VideoFiles(t, j.Out, "a")[0]))
	jobtest.Must(t, os.Remove(path))
	j.Computes(t, 1)
	samePublished(t, "a video made again", sharded.Out, j.Out)
}

// TestSignedWithPrompt: a manifest contains the model, and the prompt if the job asks for it.
func TestSignedWithPrompt(t *testing.T) {
	s := newSigning(t)
	j := jobtest.NewJob(t, "id,prompt\na,a red circle that nobody else asks for\n")
	for more, want := range map[string]bool{"": false, ", prompt: true": true} {
		j := j.Elsewhere(t)
		j.Stages = s.stages(more)
		j.MustRun(t)
		data := filesBelow(t, j.Out, "videos")
		for name, file := range data {
			if says := bytes.Contains(file, []byte("nobody else asks for")); says != want {
				t.Errorf("%q: %s contains the prompt: %v, want the contrary", more, name, says)
			}
			if !bytes.Contains(file, []byte("latentbeam.model")) || !bytes.Contains(file, []byte("dtiny")) {
				t.Errorf("%q: %s does not contain the model", more, name)
			}
		}
	}
}

// TestSignersOfJobs: errors of the option are reported before anything is computed.
func TestSignersOfJobs(t *testing.T) {
	s := newSigning(t)
	_, otherKey := testaid.Certificate(t, false)
	jobtest.Must(t, os.WriteFile(s.key+".other", otherKey, 0o600))
	key, err := os.ReadFile(s.key)
	jobtest.Must(t, err)
	for list, want := range map[string]string{
		fmt.Sprintf("{certificate: %q}", s.certificate):                                    "certificate and key are both needed",
		fmt.Sprintf("{certificate: %q, key: %q}", s.certificate+".none", s.key):            "no such file",
		fmt.Sprintf("{certificate: %q, key: %q}", s.certificate, s.key+".other"):           "for another key",
		fmt.Sprintf("{certificate: %q, key: %q}", s.certificate, string(key)):              "give the path of a file",
		fmt.Sprintf("{certificate: %q, key: %q, prompt: 1}", s.certificate, s.key):         "must be true or false",
		fmt.Sprintf("{certificate: %q, key: %q, time_stamp: \"x\"}", s.certificate, s.key): "it has no option time_stamp",
	} {
		j := jobtest.NewJob(t, jobtest.DiskTable)
		j.Stages = "[encode_text, denoise, decode_vae, encode_video: {marks: [{c2pa: " + list + "}]}]"
		_, err := j.Run()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", list, err, want)
		}
		if err != nil && strings.Contains(err.Error(), string(s.secret)) {
			t.Error("an error repeats the key")
		}
		if _, err := os.Stat(filepath.Join(j.Out, "videos")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: something was computed", list)
		}
	}
}

// TestSubmitterSigns: the submitter signs files that workers without the key published. The files are equal to those of a run with the
// key.
func TestSubmitterSigns(t *testing.T) {
	s := newSigning(t)
	want := jobtest.NewJob(t, jobtest.DiskTable)
	want.Stages = s.stages("")
	want.MustRun(t)
	j := want.Elsewhere(t)
	j.Stages = ""
	j.MustRun(t)
	output := openDir(t, j.Out)
	r, _, err := marking.Read(t.Context(), openDir(t, want.Out))
	jobtest.Must(t, err)
	jobtest.Must(t, r.Write(t.Context(), output))
	certificate, err := os.ReadFile(s.certificate)
	jobtest.Must(t, err)
	key, err := os.ReadFile(s.key)
	jobtest.Must(t, err)
	signer, err := c2pa.NewSigner(certificate, key)
	jobtest.Must(t, err)
	l, err := ledger.Open(t.Context(), output)
	jobtest.Must(t, err)
	defer l.Close()
	var weights string
	for digest := range r.Models {
		weights = digest
	}
	rows := func(context.Context) iter.Seq2[*stages.Element, error] {
		return func(yield func(*stages.Element, error) bool) {
			for _, row := range jobtest.ReadRows[schemas.VideoRow](t, j.Out, "videos") {
				key, err := schemas.ParseKey(row.Key)
				if !yield(&stages.Element{Key: key, Row: schemas.PromptRow{Prompt: row.Prompt}}, err) {
					return
				}
			}
		}
	}
	done, err := marking.Sign(t.Context(), output, l, &marking.Marker{Record: r, Signer: signer, Weights: weights}, rows(t.Context()))
	if err != nil || done.Rows != 5 {
		t.Errorf("got %+v, %v", done, err)
	}
	samePublished(t, "signed at the end", want.Out, j.Out)
}

// TestSignedPlays: a browser plays files with marks and signatures to their end, and the gallery shows a sign for each.
func TestSignedPlays(t *testing.T) {
	testaid.Long(t, "starts a browser")
	j := jobtest.Job{Prompts: jobtest.WriteTable(t, "p.csv", "id,prompt\na,a red circle moves left\nb,a blue square\n"), Out: filepath.Join(t.TempDir(), "out"),
		Sets: []string{"defaults.height=64", "defaults.width=64", "defaults.num_frames=8", "defaults.num_inference_steps=2"}}
	j.Stages = newSigning(t).stages("")
	j.MustRun(t)
	if n := unsigned(t, j.Out); n > 0 {
		t.Fatalf("%d videos are not signed", n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	page, err := browser.Open(ctx, browser.Window{Width: 900, Height: 600})
	if errors.Is(err, browser.ErrNone) {
		t.Skip(err)
	}
	jobtest.Must(t, err)
	defer page.Close()
	jobtest.Must(t, page.Go("file://"+filepath.Join(j.Out, "index.html")))
	var got struct {
		H264          string // empty: the browser was built without a decoder
		Played, Signs int
		Failed        []string // the error of each file that was not played
	}
	jobtest.Must(t, page.Eval(`(async () => {
		let files = [''];
		while (files.includes('')) { // the page gives a video its address when it is in view
			await new Promise((next) => setTimeout(next, 20));
			files = [...new Set([...document.querySelectorAll('video')].map((v) => v.currentSrc || v.src))];
		}
		const failed = [];
		const played = await Promise.all(files.map((file) => new Promise((done) => {
			const v = document.createElement('video');
			const fail = (why) => { failed.push(why + ' at ' + v.currentTime + ' s, width ' + v.videoWidth); done(false); };
			v.muted = true; v.onerror = () => fail(v.error.message);
			v.onended = () => v.videoWidth === 64 && v.currentTime > 0.5 ? done(true) : fail('ended');
			v.src = file; v.play().catch((e) => fail(String(e)));
		})));
		return {h264: document.createElement('video').canPlayType('video/mp4; codecs="avc1.42E01E"'),
			played: played.filter(Boolean).length, failed: failed,
			signs: [...document.querySelectorAll('.card')].filter((c) => c.innerText.includes('synthetic')).length};
	})()`, &got))
	if got.H264 == "" {
		t.Skip("this browser has no H.264")
	}
	if got.Played != 2 || got.Signs != 2 || len(page.Errors) > 0 {
		t.Errorf("the page has not played all files, or lacks signs: %+v, errors %q", got, page.Errors)
	}
}
