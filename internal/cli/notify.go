package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// Time limits of a hook.
const (
	commandTime = 10 * time.Minute
	postTime    = 30 * time.Second
	killTime    = 5 * time.Second // how long children of a command may keep its pipes open
)

// retryDelays are the waits before each further attempt of a hook.
var retryDelays = []time.Duration{time.Second, 4 * time.Second, 16 * time.Second}

// hookEvent is what a hook receives.
type hookEvent struct {
	Output  string // path or address
	Run     string // name of the job under runs/ in the output
	Summary []byte // JSON
}

// hook is a command or a URL.
type hook struct {
	text string
	url  *url.URL // nil: a command
}

// isURL reports whether a hook is a URL; else it is a command.
func isURL(text string) bool {
	return strings.HasPrefix(text, "http://") || strings.HasPrefix(text, "https://")
}

// parseHook parses a hook: a URL that begins with http:// or https://, or a command for the shell. $NAME and ${NAME} in a
// URL are replaced by variables of the environment, so that the job need not contain a secret. A hook that consists of one
// variable is a URL.
func parseHook(text string, lookup func(string) (string, bool)) (hook, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return hook{}, errors.New("a hook is empty: give a command or a URL")
	}
	variable := strings.HasPrefix(text, "$") && !strings.ContainsAny(text, " /|;&")
	if !isURL(text) && !variable {
		return hook{text: text}, nil
	}
	var missing []string
	full := os.Expand(text, func(name string) string {
		v, ok := lookup(name)
		if !ok {
			missing = append(missing, name)
		}
		return v
	})
	if len(missing) > 0 {
		return hook{}, fmt.Errorf("%s: the environment has no %s", text, strings.Join(missing, ", "))
	}
	u, err := url.Parse(full)
	if err != nil || !isURL(full) || u.Host == "" {
		return hook{}, fmt.Errorf("%s is no URL such as https://host/path", text) // the value is not printed: it may be a secret
	}
	return hook{text, u}, nil
}

// String names the hook in messages. It shows only the host of a URL, because the path may be a secret.
func (h hook) String() string {
	if h.url != nil {
		return h.url.Scheme + "://" + h.url.Host + "/..."
	}
	return h.text
}

// permanentError is an error that would happen again, so the hook is not tried again.
type permanentError struct{ error }

// Run runs a hook and tries again if it fails. output receives what a command prints.
func (h hook) Run(ctx context.Context, e hookEvent, output io.Writer) error {
	for try := 0; ; try++ {
		err := h.attempt(ctx, e, output)
		var end permanentError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &end) || try == len(retryDelays) || ctx.Err() != nil:
			return fmt.Errorf("on_complete: %v: %w (tried %d times)", h, err, try+1)
		}
		select {
		case <-time.After(retryDelays[try]):
		case <-ctx.Done():
		}
	}
}

func (h hook) attempt(ctx context.Context, e hookEvent, output io.Writer) error {
	if h.url != nil {
		return h.post(ctx, e)
	}
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	shell, flag := "/bin/sh", "-c"
	if runtime.GOOS == "windows" {
		shell, flag = "cmd", "/C"
	}
	cmd := exec.CommandContext(ctx, shell, flag, h.text)
	cmd.Env = append(os.Environ(), "LATENTBEAM_OUTPUT="+e.Output, "LATENTBEAM_RUN="+e.Run)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = bytes.NewReader(e.Summary), output, output, killTime
	err := cmd.Run()
	if ctx.Err() != nil {
		return fmt.Errorf("%w after %v", context.Cause(ctx), commandTime)
	}
	return err
}

// post sends the summary. Status codes 4xx are final, except 408 and 429.
func (h hook) post(ctx context.Context, e hookEvent) error {
	ctx, cancel := context.WithTimeout(ctx, postTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url.String(), bytes.NewReader(e.Summary))
	if err != nil {
		return permanentError{errors.New("the request cannot be made")}
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Latentbeam-Output", url.PathEscape(e.Output))
	r.Header.Set("Latentbeam-Run", e.Run)
	answer, err := http.DefaultClient.Do(r)
	var of *url.Error
	if errors.As(err, &of) { // its text would show the whole URL
		return of.Err
	}
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	switch code := answer.StatusCode; {
	case code < 300:
		return nil
	case code >= 400 && code < 500 && code != http.StatusRequestTimeout && code != http.StatusTooManyRequests:
		return permanentError{fmt.Errorf("the server answered %s", answer.Status)}
	default:
		return fmt.Errorf("the server answered %s", answer.Status)
	}
}
