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

// Stdin stands for standard input where a file is named.
const Stdin = "-"

// IsAddress reports whether a location is an address such as gs://bucket/x.
func IsAddress(at string) bool { return config.IsAddress(at) }

// parsed is an address taken apart.
type parsed struct {
	server *bucket.Bucket
	root   string // gs://bucket or https://host
	key    string // behind the slash; "" or with a slash at its end: a prefix
}

func (p parsed) String() string { return p.root + "/" + p.key }

// parse finds the server of an address.
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

// servers are those that this process has spoken to, so that their connections stay open.
var servers struct {
	sync.Mutex
	known   map[string]*bucket.Bucket
	reaches map[*bucket.Bucket]*bucket.Reach
}

// Clock is the clock of the waits for hosts; nil: the machine's. Tests bring their own.
var Clock bucket.Clock

// StartRun starts a run: hosts that an earlier run of this process gave up are asked again.
func StartRun() {
	servers.Lock()
	defer servers.Unlock()
	for _, r := range servers.reaches {
		r.Renew()
	}
}

// IsUnreachable reports whether err is of a host that does not answer. The next run asks it again.
func IsUnreachable(err error) bool { return errors.Is(err, bucket.ErrUnreachable) }

// RowFailure returns why a row fails for err, an error about a file that the row names. If err ends the job, it returns err
// as fatal instead. A host that does not answer fails the row as the world's, so that the next run tries the row.
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

// NoHostAnswers is an error if this run has given up hosts and none has answered: then the network is the cause, not an
// address. It names the hosts.
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

// serverOf returns the server of an address. The variables that say where a service is belong to its name.
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

// base is the last element of a key, as the name of a file on this host.
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

// rowsOwn takes from an error that it ends the job: an address of a row that makes no sense is the row's trouble.
func rowsOwn(err error) error {
	if fault.ExitCode(err) == fault.ExitUsage {
		return fault.Row(errors.New(err.Error()))
	}
	return err
}
