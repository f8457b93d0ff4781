package buckettest

import (
	"encoding/hex"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fsouza/fake-gcs-server/fakestorage"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"latentbeam/internal/storage/store/storetest"
)

// Host is the address on which services listen.
var Host = "127.0.0.1"

// Bucket is the name of the services' bucket.
const Bucket = "bucket"

// Server is a service behind a proxy.
type Server struct {
	*Proxy
	URL string   // http://127.0.0.1:port
	Env []string // name=value: the environment that a client needs to find it
	lie *atomic.Pointer[storetest.Lie]
}

// Use sets the environment of this process for the server.
func (s *Server) Use(t testing.TB) {
	for _, pair := range s.Env {
		for i := range pair {
			if pair[i] == '=' {
				t.Setenv(pair[:i], pair[i+1:])
				break
			}
		}
	}
}

// GCS starts a service that imitates Google Cloud Storage. It stops when the test ends.
func GCS(t testing.TB) *Server {
	s := serve(t, func(address *url.URL) http.Handler {
		fake, err := fakestorage.NewServerWithOptions(fakestorage.Options{
			NoListener: true, Scheme: "http", ExternalURL: address.String(), PublicHost: address.Host,
			Writer: io.Discard,
		})
		if err != nil {
			t.Fatal(err)
		}
		fake.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: Bucket})
		return fake.HTTPHandler()
	})
	s.Env = []string{"STORAGE_EMULATOR_HOST=" + s.URL}
	return s
}

// SecretKey is the secret of S3 clients. No message may show it.
const SecretKey = "planted-SECRET-key-0123456789"

// S3 starts a service that imitates S3. It stops when the test ends.
func S3(t testing.TB) *Server {
	s := serve(t, func(*url.URL) http.Handler {
		backend := s3mem.New()
		if err := backend.CreateBucket(Bucket); err != nil {
			t.Fatal(err)
		}
		return &conditional{backend: backend,
			service: gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server()}
	})
	s.Env = []string{
		"AWS_ENDPOINT_URL=" + s.URL, "AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=planted-access-key",
		"AWS_SECRET_ACCESS_KEY=" + SecretKey,
	}
	return s
}

// conditional adds If-None-Match and If-Match to the end of a multipart upload, which the S3 fake lacks.
type conditional struct {
	backend gofakes3.Backend
	service http.Handler
	mu      sync.Mutex // one write at a time
}

// ServeHTTP implements http.Handler.
func (c *conditional) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	upload := r.URL.Query().Has("uploadId")
	if r.Method == http.MethodPut && !upload || r.Method == http.MethodPost && upload {
		c.mu.Lock()
		defer c.mu.Unlock()
	}
	if r.Method == http.MethodPost && upload {
		_, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		tag := ""
		if there, err := c.backend.HeadObject(Bucket, key); err == nil {
			tag = hex.EncodeToString(there.Hash)
		}
		only := strings.Trim(r.Header.Get("If-Match"), `"`)
		if r.Header.Get("If-None-Match") == "*" && tag != "" || only != "" && only != tag {
			w.WriteHeader(http.StatusPreconditionFailed)
			_, _ = io.WriteString(w, "<Error><Code>PreconditionFailed</Code><Message>of the test</Message></Error>")
			return
		}
	}
	c.service.ServeHTTP(w, r)
}

func serve(t testing.TB, service func(address *url.URL) http.Handler) *Server {
	listener, err := net.Listen("tcp", net.JoinHostPort(Host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	address := &url.URL{Scheme: "http", Host: listener.Addr().String()}
	lie := new(atomic.Pointer[storetest.Lie])
	proxy := &Proxy{Service: &liar{service: service(address), lie: lie}}
	server := &httptest.Server{Listener: listener, Config: &http.Server{
		Handler: proxy, ErrorLog: log.New(io.Discard, "", 0),
	}}
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return &Server{Proxy: proxy, URL: address.String(), lie: lie}
}

// quietTime is how long a server must have no requests to be quiet.
const quietTime = 10 * time.Millisecond

// quiet waits until no request has run for a while.
func (s *Server) quiet() {
	for s.working.Load() > 0 || time.Now().UnixNano()-s.last.Load() < int64(quietTime) {
		time.Sleep(time.Millisecond)
	}
}
