package source

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"latentbeam/internal/config"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/bucket"
	"latentbeam/internal/storage/store/open"
	"latentbeam/schemas/fault"
)

// Stdin is the name of standard input.
const Stdin = "-"

// IsAddress reports whether a location is an address such as gs://bucket/x.
func IsAddress(at string) bool { return config.IsAddress(at) }

// parsed is a parsed address.
type parsed struct {
	server *bucket.Bucket
	root   string // gs://bucket or https://host
	key    string // part after the slash; "" or with a slash at its end: a prefix
}

func (p parsed) String() string { return p.root + "/" + p.key }

// parse parses an address and finds its server.
func parse(ctx context.Context, at string, schemes []string) (parsed, error) {
	if problem, fix := config.CheckAddress(at, schemes); problem != "" {
		return parsed{}, fmt.Errorf("%s: %s; %s", bucket.Redact(at), problem, fix)
	}
	scheme, rest, _ := strings.Cut(at, "://")
	host, key, _ := strings.Cut(rest, "/")
	root := bucket.Address{Scheme: scheme, Bucket: host}
	server, err := serverOf(ctx, root)
	return parsed{server, root.String(), key}, err
}

// servers caches the servers that this process has used, so that connections stay open.
var servers struct {
	sync.Mutex
	known   map[string]*bucket.Bucket
	reaches map[*bucket.Bucket]*bucket.Reach
}

// Clock is the clock for waiting for hosts; nil: the machine's. Tests replace it.
var Clock bucket.Clock

// StartRun starts a run: hosts that an earlier run of this process gave up are tried again.
func StartRun() {
	servers.Lock()
	defer servers.Unlock()
	for _, r := range servers.reaches {
		r.Renew()
	}
}

// IsUnreachable reports whether err means that a host does not answer. The next run tries the host again.
func IsUnreachable(err error) bool { return errors.Is(err, bucket.ErrUnreachable) }

// RowFailure returns why a row fails because of err, an error about a file that the row names. If err must end the job, it is
// returned as fatal instead. If a host does not answer, the row's failure is a retry error, so that the next run tries the row
// again.
func RowFailure(err error) (failure, fatal error) {
	switch {
	case err == nil:
		return nil, nil
	case IsUnreachable(err):
		return fault.Retry(err), nil
	}
	if own := rowsOwn(err); fault.ClassOf(own) == fault.ClassRow {
		return fault.Row(own), nil
	}
	return nil, err
}

// NoHostAnswers returns an error if this run has given up hosts and no host has answered: then the network is the likely cause.
// It names the hosts.
func NoHostAnswers() error {
	servers.Lock()
	defer servers.Unlock()
	var lost []string
	for b, r := range servers.reaches {
		if r.Answered() {
			return nil
		}
		if err := r.Lost(); err != nil {
			lost = append(lost, fmt.Sprintf("%s (%s)", b.URL(), bucket.Redact(err.Error())))
		}
	}
	if len(lost) == 0 {
		return nil
	}
	slices.Sort(lost)
	return fault.TryAgain(fmt.Errorf("no host that the input names answers, so no row is recorded as failed: %s; check the network, "+
		"and run this again", strings.Join(lost, ", ")))
}

// serverOf returns the server of an address. The environment variables that set a service's location are part of the cache key.
func serverOf(ctx context.Context, at bucket.Address) (*bucket.Bucket, error) {
	name := at.String()
	for _, variable := range []string{"STORAGE_EMULATOR_HOST", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_PROFILE",
		"AWS_ACCESS_KEY_ID"} {
		name += "\x00" + os.Getenv(variable)
	}
	servers.Lock()
	defer servers.Unlock()
	if b, found := servers.known[name]; found {
		return b, nil
	}
	reach := &bucket.Reach{}
	b, err := open.Bucket(ctx, at, bucket.Options{Reach: reach, Clock: Clock})
	if err != nil {
		return nil, err
	}
	if servers.known == nil {
		servers.known, servers.reaches = map[string]*bucket.Bucket{}, map[*bucket.Bucket]*bucket.Reach{}
	}
	servers.known[name], servers.reaches[b] = b, reach
	return b, nil
}

// base returns the last element of a key, as a file name for this host.
func base(key string) string {
	name := path.Base(key)
	if store.CheckName(name) == nil {
		return name
	}
	if ext := path.Ext(name); store.CheckName("file"+ext) == nil {
		return "file" + ext
	}
	return "file"
}

// rowsOwn changes an error that would end the job into an error of the row: an invalid address in a row concerns only that row.
func rowsOwn(err error) error {
	if fault.ExitCode(err) == fault.ExitUsage {
		return fault.Row(errors.New(err.Error()))
	}
	return err
}
