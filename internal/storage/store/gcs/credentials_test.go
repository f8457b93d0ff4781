package gcs

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"latentbeam/internal/storage/store/bucket"
	"latentbeam/schemas/fault"
)

// TestCredentialsThatGiveNoToken: a damaged key and a deleted account are the user's mistake, and are not tried for minutes. A server
// of tokens that is overloaded is tried again.
func TestCredentialsThatGiveNoToken(t *testing.T) {
	secret, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	key := string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(secret)}))
	for name, c := range map[string]struct {
		key     string
		answers []int // HTTP statuses of the server of tokens
		want    string
	}{
		"damaged key":     {"-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\n", nil, "private key"},
		"deleted account": {key, []int{400}, "invalid_grant"},
		"overloaded":      {key, []int{503, 503, 400}, "invalid_grant"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.answers[min(asked, len(c.answers)-1)])
				w.Write([]byte(`{"error": "invalid_grant", "error_description": "Invalid grant: account not found"}`))
				asked++
			}))
			defer server.Close()
			file := filepath.Join(t.TempDir(), "key.json")
			account, err := json.Marshal(map[string]string{"type": "service_account", "client_email": "a@b", "project_id": "p",
				"private_key": c.key, "token_uri": server.URL})
			if err == nil {
				err = os.WriteFile(file, account, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
			t.Setenv("STORAGE_EMULATOR_HOST", "")
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			b, err := open(ctx, "prefix", bucket.Options{})
			if err == nil {
				defer b.Close()
				_, err = b.Stat(ctx, "x")
			}
			if err == nil || fault.ExitCode(err) != fault.ExitUsage || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "check the credentials") {
				t.Errorf("error %v, want one of the user that says %q", err, c.want)
			}
			if asked < len(c.answers) {
				t.Errorf("asked %d times for a token, want %d", asked, len(c.answers))
			}
		})
	}
}

// TestWrongCredentialsFile: the message about a file of credentials names the file and the variable that names it.
func TestWrongCredentialsFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key.json")
	if err := os.WriteFile(file, []byte(`{"broken`), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("STORAGE_EMULATOR_HOST", "")
	for _, path := range []string{file, file + ".none"} {
		t.Setenv(fileVariable, path)
		_, err := Open(t.Context(), bucket.Address{Scheme: Scheme, Bucket: "b"}, nil, bucket.Options{})
		if fault.ExitCode(err) != fault.ExitUsage || !strings.Contains(err.Error(), fileVariable+` is "`+path+`": `) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
