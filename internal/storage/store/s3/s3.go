// Package s3 makes requests to buckets of S3 and compatible services. A service must refuse a PUT whose If-None-Match or If-Match
// does not hold; AWS, MinIO, R2 and Ceph do. Environment variables configure the rest: see Environment.
package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"latentbeam/internal/storage/store/bucket"
	"latentbeam/schemas/fault"
	"latentbeam/schemas/objects"
)

// Scheme is the scheme of addresses.
const Scheme = "s3"

// Environment is the configuration of S3 from environment variables.
type Environment struct {
	Endpoint  *url.URL // AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, or AWS itself
	Region    string   // AWS_REGION, AWS_DEFAULT_REGION; empty: the service is asked
	PathStyle bool     // AWS_S3_FORCE_PATH_STYLE: the bucket is in the path; default false for AWS, else true
}

// FromEnvironment reads the environment. It refuses an address with credentials, without repeating it.
func FromEnvironment() (Environment, error) {
	text := first("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
	e := Environment{Region: first("AWS_REGION", "AWS_DEFAULT_REGION"), PathStyle: text != ""}
	u, err := url.Parse(cmp.Or(text, "https://s3.amazonaws.com"))
	if err != nil || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.Scheme != "http" && u.Scheme != "https" {
		return e, fault.Usage(errors.New("AWS_ENDPOINT_URL: want http(s)://host:port without a user and a path"))
	}
	e.Endpoint = u
	switch style := os.Getenv("AWS_S3_FORCE_PATH_STYLE"); style {
	case "":
	case "true", "1":
		e.PathStyle = true
	case "false", "0":
		e.PathStyle = false
	default:
		return e, fault.Usage(fmt.Errorf("AWS_S3_FORCE_PATH_STYLE: %q, want true or false", style))
	}
	return e, nil
}

func first(names ...string) string {
	for _, name := range names {
		if v := os.Getenv(name); v != "" {
			return v
		}
	}
	return ""
}

// Open opens the bucket of an address. Credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, the file of
// AWS_PROFILE, or the machine's role. transport is nil except in tests.
func Open(_ context.Context, at bucket.Address, transport http.RoundTripper, o bucket.Options) (*bucket.Bucket, error) {
	return openIn(at, transport, o, partBytes)
}

// openIn is Open with a given size of parts.
func openIn(at bucket.Address, transport http.RoundTripper, o bucket.Options, part int64) (*bucket.Bucket, error) {
	core, err := connect(transport)
	if err != nil {
		return nil, fault.Usage(fmt.Errorf("open %s: %s", at, bucket.Redact(err.Error())))
	}
	for _, name := range []string{"AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN"} {
		o.Secrets = append(o.Secrets, os.Getenv(name))
	}
	return bucket.New(&service{core, at.Bucket, part}, at, o), nil
}

// noPause sets the client's pause between attempts to 0, because the client would also pause after its only attempt. The pause is a
// variable of the client's package; no other code in this process uses that client.
var noPause = sync.OnceFunc(func() { minio.DefaultRetryUnit = 0 })

// checkProfile returns an error if AWS_PROFILE names a profile that gives no credentials. The client would send its requests
// without any.
func checkProfile() error {
	profile := os.Getenv("AWS_PROFILE")
	if profile == "" || first("AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY") != "" {
		return nil
	}
	if _, err := (&credentials.FileAWSCredentials{}).RetrieveWithCredContext(nil); err != nil {
		return fmt.Errorf("AWS_PROFILE is %q: %w; name a profile of ~/.aws/credentials or ~/.aws/config, or unset it", profile, err)
	}
	return nil
}

// connect returns a client for the environment.
func connect(transport http.RoundTripper) (*minio.Core, error) {
	noPause()
	env, err := FromEnvironment()
	if err != nil {
		return nil, err
	}
	if err := checkProfile(); err != nil {
		return nil, err
	}
	lookup := minio.BucketLookupDNS
	if env.PathStyle {
		lookup = minio.BucketLookupPath
	}
	if transport == nil {
		plain, err := minio.DefaultTransport(env.Endpoint.Scheme == "https")
		if err != nil {
			return nil, err
		}
		transport = plain
	}
	return minio.NewCore(env.Endpoint.Host, &minio.Options{
		Creds: credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{},
		}),
		Secure: env.Endpoint.Scheme == "https", Transport: redirected{transport}, Region: env.Region, BucketLookup: lookup, MaxRetries: 1,
	})
}

type service struct {
	core   *minio.Core
	bucket string
	part   int64 // size of a part, and size above which objects are sent in parts
}

// Close implements objects.Service. The client keeps its connections, because readers may still use them.
func (s *service) Close() {}

func version(etag string) objects.Version { return objects.Version(strings.Trim(etag, `"`)) }

// Stat implements objects.Service.
func (s *service) Stat(ctx context.Context, key string) (objects.Object, error) {
	info, err := s.core.StatObject(ctx, s.bucket, key, minio.StatObjectOptions{})
	if err != nil {
		return objects.Object{}, translate(err)
	}
	if version(info.ETag) == objects.Absent {
		return objects.Object{}, &objects.Refusal{Status: http.StatusOK, Code: objects.NoTag, Text: "the description of an object has no entity tag"}
	}
	return objects.Object{Key: key, Version: version(info.ETag), Size: info.Size, Time: info.LastModified,
		Sum: sum(info)}, nil
}

// md5Tag matches an entity tag that is the MD5 of an object; an object that was sent in parts has another form.
var md5Tag = regexp.MustCompile(`^[0-9a-f]{32}$`)

// sum returns the checksum in an entity tag. There is none if the service encrypts with a key of the user.
func sum(info minio.ObjectInfo) string {
	const encrypted = "X-Amz-Server-Side-Encryption"
	if !md5Tag.MatchString(string(version(info.ETag))) || strings.HasPrefix(info.Metadata.Get(encrypted), "aws:kms") ||
		info.Metadata.Get(encrypted+"-Customer-Algorithm") != "" {
		return ""
	}
	return "md5:" + string(version(info.ETag))
}

// Read implements objects.Service.
func (s *service) Read(ctx context.Context, o objects.Object, offset, length int64) (io.ReadCloser, error) {
	options := minio.GetObjectOptions{}
	err := options.SetRange(offset, offset+length-1)
	if o.Version != objects.Any {
		err = errors.Join(err, options.SetMatchETag(string(o.Version)))
	}
	if err != nil {
		return nil, err
	}
	body, info, header, err := s.core.GetObject(ctx, s.bucket, o.Key, options)
	if err != nil {
		return nil, translate(err)
	}
	if o.Version != objects.Any && version(info.ETag) != o.Version { // the service ignores If-Match of a GET
		body.Close()
		return nil, objects.ErrRefused
	}
	if header.Get("Content-Range") == "" && offset > 0 { // the service ignores ranges
		if _, err := io.CopyN(io.Discard, body, offset); err != nil {
			body.Close()
			return nil, err
		}
	}
	return body, nil
}

// Write implements objects.Service.
func (s *service) Write(ctx context.Context, key string, old objects.Version, c objects.Content) (objects.Version, error) {
	options := writing(c)
	options.DisableMultipart = true
	options.DisableContentSha256 = c.Size == 0 // otherwise the client sends no length over plain http
	onlyOver(&options, old)
	info, err := s.core.Client.PutObject(ctx, s.bucket, key, io.NewSectionReader(c, 0, c.Size), c.Size, options)
	if err != nil {
		return objects.Absent, refused(err, old)
	}
	return version(info.ETag), nil
}

// writing returns the options for a new object.
func writing(c objects.Content) (o minio.PutObjectOptions) {
	o.ContentType = c.Type
	if c.Changes {
		o.CacheControl = "no-cache"
	}
	return o
}

// onlyOver lets a write succeed only over version old of an object. objects.Absent: only if there is no object; objects.Any: always.
func onlyOver(o *minio.PutObjectOptions, old objects.Version) {
	switch old {
	case objects.Absent:
		o.SetMatchETagExcept("*")
	case objects.Any:
	default:
		o.SetMatchETag(string(old))
	}
}

// refused translates the error of a write that was allowed only over version old.
func refused(err error, old objects.Version) error {
	if err := translate(err); old == objects.Absent || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return objects.ErrRefused // AWS answers If-Match with 404 if there is no object
}

// List implements objects.Service.
func (s *service) List(ctx context.Context, prefix string, flat bool, page string, most int) (found []objects.Object, next string, err error) {
	delimiter := ""
	if flat {
		delimiter = "/"
	}
	result, err := s.list(ctx, prefix, page, delimiter, most)
	if err != nil {
		return nil, "", translate(err)
	}
	for _, o := range result.Contents {
		found = append(found, objects.Object{Key: o.Key, Version: version(o.ETag), Size: o.Size, Time: o.LastModified})
	}
	if result.IsTruncated {
		next = result.NextContinuationToken
	}
	return found, next, nil
}

// list lists a page. The client's function has no context argument; its transport limits it.
func (s *service) list(ctx context.Context, prefix, page, delimiter string, most int) (result minio.ListBucketV2Result, err error) {
	if err := ctx.Err(); err != nil {
		return result, err
	}
	type answer struct {
		minio.ListBucketV2Result
		error
	}
	answers := make(chan answer, 1)
	go func() {
		result, err := s.core.ListObjectsV2(s.bucket, prefix, "", page, delimiter, most)
		answers <- answer{result, err}
	}()
	select {
	case <-ctx.Done():
		return result, ctx.Err()
	case a := <-answers:
		return a.ListBucketV2Result, a.error
	}
}

// Remove implements objects.Service. It removes any version, because some services do not support a condition for removals.
func (s *service) Remove(ctx context.Context, o objects.Object) error {
	return translate(s.core.RemoveObject(ctx, s.bucket, o.Key, minio.RemoveObjectOptions{}))
}

// translate converts an error of the client to an error that package bucket knows.
func translate(err error) error {
	if err == nil {
		return nil
	}
	if f := refusal(err); f != nil {
		return f
	}
	var answer minio.ErrorResponse
	if !errors.As(err, &answer) || answer.StatusCode == 0 && answer.Code == "" {
		return err
	}
	switch {
	case answer.Code == minio.NoSuchKey, answer.StatusCode == http.StatusNotFound && answer.Code != minio.NoSuchBucket:
		return fs.ErrNotExist
	case answer.Code == minio.PreconditionFailed, answer.StatusCode == http.StatusPreconditionFailed,
		answer.StatusCode == http.StatusRequestedRangeNotSatisfiable: // the service checks the range before the version
		return objects.ErrRefused
	}
	status := answer.StatusCode
	if status == 0 && answer.Code == minio.NoSuchBucket {
		status = http.StatusNotFound
	}
	return &objects.Refusal{Status: status, Code: answer.Code, Text: answer.Message, Fix: fix(answer)}
}

// fix suggests what the user can do about an answer.
func fix(answer minio.ErrorResponse) string {
	elsewhere := answer.StatusCode == http.StatusBadRequest || answer.StatusCode == http.StatusMovedPermanently
	if answer.Region != "" && elsewhere && answer.Code != "ExpiredToken" {
		return fmt.Sprintf("the bucket is in the region %s: set AWS_REGION=%[1]s", answer.Region)
	}
	switch answer.Code {
	case "AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraintException", "InvalidRegion":
		return "the bucket is in another region: set AWS_REGION, or AWS_ENDPOINT_URL where the service has another address for it"
	case "RequestTimeTooSkewed":
		return "set the clock of this host"
	case "ExpiredToken", "InvalidToken", "TokenRefreshRequired":
		return "the credentials have ended: get new ones"
	case "NotImplemented":
		return "the service does not have what this request asks for: docs/buckets.md says what a bucket must be able to do"
	}
	return ""
}
