package hub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"latentbeam/schemas/fault"
)

// status is an unsuccessful answer of a hub.
type status struct {
	code    int
	kind    string        // X-Error-Code: GatedRepo, RepoNotFound, RevisionNotFound, EntryNotFound
	message string        // X-Error-Message
	host    string        // the host that answered
	after   time.Duration // Retry-After
}

// Error describes the answer.
func (s *status) Error() string {
	text := fmt.Sprintf("%s answers %d %s", s.host, s.code, http.StatusText(s.code))
	if s.message != "" {
		text += ": " + s.message
	}
	return text
}

// temporary reports whether the same request may succeed later.
func (s *status) temporary() bool {
	return s.code >= 500 || s.code == http.StatusTooManyRequests || s.code == http.StatusRequestTimeout
}

const maxMessage = 300

// refusal makes a status from an answer.
func refusal(resp *http.Response) *status {
	s := &status{code: resp.StatusCode, kind: resp.Header.Get("X-Error-Code"), message: resp.Header.Get("X-Error-Message"),
		host: resp.Request.URL.Host}
	s.message = strings.Join(strings.Fields(s.message), " ")
	if len(s.message) > maxMessage {
		s.message = strings.ToValidUTF8(s.message[:maxMessage], "") + "..."
	}
	if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && n >= 0 {
		s.after = time.Duration(min(n, 300)) * time.Second
	}
	return s
}

// brokenConnection is a connection that could not be opened or broke.
type brokenConnection struct{ error }

func (c brokenConnection) Unwrap() error { return c.error }

// unreachable makes an error from a network error. It contains only the host, because addresses of downloads contain
// signatures.
func unreachable(err error) error {
	var u *url.Error
	var wrong *wrongAddress
	if errors.As(err, &wrong) {
		return wrong
	}
	if errors.As(err, &u) {
		host := "the hub"
		if at, bad := url.Parse(u.URL); bad == nil && at.Host != "" {
			host = at.Host
		}
		err = fmt.Errorf("ask %s: %w", host, u.Err)
	}
	return brokenConnection{err}
}

// explain makes an error for the user from the error of a request about a repository.
func (c *Client) explain(r Repo, err error) error {
	if err == nil {
		return nil
	}
	at := fmt.Errorf("pull %s: %w", r, err)
	var s *status
	var broken brokenConnection
	switch {
	case errors.As(err, &s):
		if s.temporary() {
			return fault.TryAgain(fmt.Errorf("%w; run the same command later: it resumes", at))
		}
		return fault.Usage(fmt.Errorf("%w; %s", at, c.fix(r, s)))
	case errors.Is(err, context.Canceled):
		return at
	case errors.As(err, &broken):
		return fault.TryAgain(fmt.Errorf("%w; run the same command again: it resumes", at))
	}
	return at
}

// fix says what the user can do about an answer.
func (c *Client) fix(r Repo, s *status) string {
	page := c.endpoint + "/" + r.Name
	gated := s.kind == "GatedRepo" || s.code == http.StatusForbidden
	switch {
	case gated && c.token == "":
		return fmt.Sprintf("the repository is gated: accept its conditions at %s, and set HF_TOKEN to a token of that account", page)
	case gated:
		return fmt.Sprintf("the repository is gated, and the account of the token has no access: accept its conditions at %s; "+
			"a fine-grained token needs the right to read gated repositories", page)
	case s.kind == "RevisionNotFound":
		return fmt.Sprintf("the repository has no revision %q", r.wanted())
	case s.kind == "EntryNotFound":
		return "the file is gone"
	case s.code == http.StatusUnauthorized && c.token == "":
		return fmt.Sprintf("there is no such repository, or it is private: look at %s; for a private one set HF_TOKEN", page)
	case s.code == http.StatusUnauthorized:
		return fmt.Sprintf("the token is not valid, or there is no such repository: look at %s", page)
	case s.code == http.StatusNotFound:
		return fmt.Sprintf("there is no such repository, or the account of the token does not see it: look at %s", page)
	}
	return "look at " + page
}

// tries is how often in a row a request may fail without progress.
const tries = 5

// retry calls do until it succeeds, fails permanently, or fails tries times in a row without progress.
func (c *Client) retry(ctx context.Context, do func() (progress bool, err error)) error {
	for attempt := 1; ; attempt++ {
		progress, err := do()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if progress {
			attempt = 1
		}
		var s *status
		var broken brokenConnection
		passing := errors.As(err, &s) && s.temporary() || errors.As(err, &broken)
		if !passing || attempt >= tries {
			return err
		}
		if c.Retrying != nil {
			c.Retrying(err, attempt, tries)
		}
		asked := time.Duration(0)
		if s != nil {
			asked = s.after
		}
		if err := c.wait(ctx, attempt, asked); err != nil {
			return err
		}
	}
}

// pause waits before the next attempt: 1, 2, 4 and 8 seconds, or the time that the server asks for.
func pause(ctx context.Context, attempt int, asked time.Duration) error {
	t := time.NewTimer(max(asked, time.Second<<(attempt-1)))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
