package bucket

import (
	"strings"
	"testing"
)

func TestRedact(t *testing.T) {
	const secret = "hunter2/very+secret"
	for _, text := range []string{
		"dial https://key:" + secret + "@host/x: refused",
		`Put "https://host/b/o?X-Amz-Signature=` + secret + `": EOF`,
		"Authorization: " + secret, "bearer " + secret, "the key " + secret + " is unknown",
		"AWS4 Credential=" + secret + ", Signature=" + secret,
	} {
		got := Redact(text, secret)
		if strings.Contains(got, "hunter2") {
			t.Errorf("%s became %s", text, got)
		}
		if !strings.Contains(text, "is unknown") && strings.Contains(Redact(text), "very+secret") {
			t.Errorf("without the value of the secret, %s became %s", text, Redact(text))
		}
	}
	for _, text := range []string{"publish gs://bucket/a b/c: HTTP status 503",
		"list s3://b: HTTP status 400, AuthorizationHeaderMalformed, The authorization header is malformed; set AWS_REGION"} {
		if got := Redact(text); got != text {
			t.Errorf("a text without secrets became %s", got)
		}
	}
}

func TestParseAddress(t *testing.T) {
	for url, want := range map[string]string{
		"gs://b/a/c": "gs://b/a/c", "s3://b": "s3://b", "s3://b/": "s3://b", "gs://b/a/": "gs://b/a",
		"gs:///x": "", "gs://": "", "gs://b/../x": "", "gs://b//x": "", "s3://k:s@b/x": "", "gs://b/x?y": "", "gs://b:80/x": "",
	} {
		at, err := ParseAddress(url)
		if err == nil && at.String() != want || (err == nil) != (want != "") {
			t.Errorf("%s: %v, %v", url, at, err)
		}
		if err != nil && strings.Contains(err.Error(), "k:s") {
			t.Errorf("the message shows credentials: %v", err)
		}
	}
}
