package buckettest

import (
	"bytes"
	"context"
	"io"
	"log"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/bucket"
	"latentbeam/schemas/fault"
)

// Secrets checks that no message and no log contains a credential, whatever a service answers, even if it repeats the request's
// headers. It also checks that a failure is a temporary one, except for a refusal at the first contact.
func Secrets(t *testing.T, server *Server, open Opener) {
	server.Use(t)
	var logged bytes.Buffer
	log.SetOutput(&logged)
	old := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug})))
	defer func() {
		slog.SetDefault(old)
		log.SetOutput(io.Discard)
	}()
	for _, status := range []int{401, 403, 429, 500, 503} {
		server.Service = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "<Error><Code>Refused</Code><Message>"+SecretKey+" https://u:"+SecretKey+"@host/?token="+SecretKey+
				r.Header.Get("Authorization")+"</Message></Error>")
		})
		s, err := open(t.Context(), "secrets", bucket.Options{Clock: NewClock()})
		if err != nil {
			t.Fatal(err)
		}
		_, lockErr := s.Lock(t.Context(), ".lock", "a test")
		_, openErr := s.Open(t.Context(), "a")
		_, listErr := store.Names(t.Context(), s, "", store.Deep)
		for call, err := range map[string]error{
			"Put":     s.Put(context.Background(), store.Object{Name: "a", Data: []byte("x")}),
			"Replace": s.Replace(t.Context(), "a", func(io.Writer) error { return nil }),
			"Lock":    lockErr, "Open": openErr, "List": listErr, "Remove": s.Remove(t.Context(), "a"),
		} {
			want := fault.ExitTryAgain
			if status < 429 {
				want = fault.ExitUsage // no request of its kind has succeeded yet
			}
			if err == nil || fault.ExitCode(err) != want {
				t.Errorf("%s, status %d: %v", call, status, err)
				continue
			}
			if text := err.Error(); strings.Contains(text, SecretKey) || strings.Contains(text, "Signature=") {
				t.Errorf("%s, status %d, shows a credential: %v", call, status, err)
			}
		}
	}
	if strings.Contains(logged.String(), SecretKey) {
		t.Errorf("a log shows a credential: %s", logged.String())
	}
}
