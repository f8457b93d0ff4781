package s3

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"time"

	"github.com/minio/minio-go/v7"

	"latentbeam/schemas/objects"
)

// Sizes for multipart uploads. AWS accepts parts from 5 MiB, at most 10,000 parts, and objects up to 5 TiB.
const (
	partBytes = 64 << 20
	partsMost = 10_000
	pageKeys  = 1000 // uploads on one page of a list
)

// Parts implements objects.Service.
func (s *service) Parts() *objects.Parts {
	return &objects.Parts{Above: s.part, Bytes: s.part, Most: partsMost,
		Begin: s.begin, Send: s.send, Finish: s.finish, Drop: s.drop, Begun: s.begun}
}

func (s *service) begin(ctx context.Context, key string, c objects.Content) (string, error) {
	upload, err := s.core.NewMultipartUpload(ctx, s.bucket, key, writing(c))
	return upload, translate(err)
}

func (s *service) send(ctx context.Context, key, upload string, n int, part *io.SectionReader) (string, error) {
	sum := sha256.New() // the service verifies it; some services do not support the client's own chunked signature
	if _, err := io.Copy(sum, part); err != nil {
		return "", err
	}
	if _, err := part.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	sent, err := s.core.PutObjectPart(ctx, s.bucket, key, upload, n, part, part.Size(),
		minio.PutObjectPartOptions{Sha256Hex: hex.EncodeToString(sum.Sum(nil)), DisableContentSha256: true})
	return sent.ETag, gone(err)
}

func (s *service) finish(ctx context.Context, key, upload string, tags []string, old objects.Version, c objects.Content) (
	objects.Version, error,
) {
	parts := make([]minio.CompletePart, len(tags))
	for i, tag := range tags {
		parts[i] = minio.CompletePart{PartNumber: i + 1, ETag: tag}
	}
	options := minio.PutObjectOptions{}
	onlyOver(&options, old)
	info, err := s.core.CompleteMultipartUpload(ctx, s.bucket, key, upload, parts, options)
	if err = gone(err); err != nil {
		return objects.Absent, refused(err, old)
	}
	return version(info.ETag), nil
}

func (s *service) drop(ctx context.Context, key, upload string) error {
	if err := gone(s.core.AbortMultipartUpload(ctx, s.bucket, key, upload)); !errors.Is(err, objects.ErrRefused) {
		return err
	}
	return nil
}

func (s *service) begun(ctx context.Context, prefix string, before time.Time) (all []objects.Upload, err error) {
	for key, id, more := "", "", true; more; {
		page, err := s.core.ListMultipartUploads(ctx, s.bucket, prefix, key, id, "", pageKeys)
		switch err = translate(err); {
		case errors.Is(err, fs.ErrNotExist): // some services answer this if nothing was ever sent in parts
			return all, nil
		case err != nil:
			return nil, err
		}
		for _, u := range page.Uploads {
			if u.Initiated.Before(before) {
				all = append(all, objects.Upload{Key: u.Key, ID: u.UploadID})
			}
		}
		if page.IsTruncated && page.NextKeyMarker == key && page.NextUploadIDMarker == id {
			return nil, &objects.Refusal{Status: http.StatusOK, Text: "a page of the list of uploads names itself as the next page"}
		}
		key, id, more = page.NextKeyMarker, page.NextUploadIDMarker, page.IsTruncated
	}
	return all, nil
}

// gone translates the error of a request about an upload. An unknown upload was finished or aborted before.
func gone(err error) error {
	var answer minio.ErrorResponse
	if errors.As(err, &answer) && (answer.Code == "NoSuchUpload" ||
		answer.StatusCode == http.StatusNotFound && answer.Code != minio.NoSuchBucket) {
		return objects.ErrRefused
	}
	return translate(err)
}
