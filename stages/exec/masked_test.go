package exec

import (
	"strings"
	"testing"

	"latentbeam/stages"
)

// TestSecretsInAnswers: secrets that a program puts into readings, names of files, keys or messages are in no row and no
// error, because tables, summaries and pages show rows and errors.
func TestSecretsInAnswers(t *testing.T) {
	const secret = "s3cret-value"
	for name, a := range map[string]answer{
		"reading": {Type: typeResult, Readings: readings{"token": "is " + secret, secret: "1"}},
		"file":    {Type: typeResult, Outputs: map[string]string{"frames": secret + ".npy"}},
		"kind":    {Type: typeResult, Outputs: map[string]string{secret: "x.npy"}},
		"message": {Type: typeError, Message: "token " + secret + " is refused"},
		"key":     {Type: typeResult, Key: secret},
	} {
		t.Run(name, func(t *testing.T) {
			e := &stages.Element{}
			x := &exchange{ctx: t.Context(), opts: &options{Takes: "frames", Gives: "frames"}, dir: t.TempDir(), batch: []*stages.Element{e},
				program: &program{batches: 1, hide: strings.NewReplacer(secret, "***")}, answered: map[string]bool{}}
			a.Batch = 1
			if a.Key == "" {
				a.Key = e.Key.String()
			}
			_, err := x.receive(a)
			seen := ""
			if err != nil {
				seen += err.Error()
			}
			if e.Failed != nil {
				seen += e.Failed.Error()
			}
			for k, v := range e.Readings {
				seen += k + "=" + v
			}
			if strings.Contains(seen, secret) || !strings.Contains(seen, "***") {
				t.Errorf("%q: want *** in place of the secret", seen)
			}
		})
	}
}
