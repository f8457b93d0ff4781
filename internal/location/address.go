package location

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"sync"

	"latentbeam/internal/config"
	"latentbeam/internal/store"
	"latentbeam/internal/store/bucket"
	"latentbeam/internal/store/open"
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
	known map[string]*bucket.Bucket
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
	b, err := open.Bucket(ctx, at)
	if err != nil {
		return nil, err
	}
	if servers.known == nil {
		servers.known = map[string]*bucket.Bucket{}
	}
	servers.known[name] = b
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
