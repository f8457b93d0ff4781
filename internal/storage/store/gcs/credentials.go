package gcs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"

	"cloud.google.com/go/auth"
	"cloud.google.com/go/auth/credentials"
	"cloud.google.com/go/storage"

	"latentbeam/schemas/objects"
)

// fileVariable is the environment variable that names a file of credentials.
const fileVariable = "GOOGLE_APPLICATION_CREDENTIALS"

// findCredentials returns the application default credentials. Their tokens come from refusingTokens.
func findCredentials() (*auth.Credentials, error) {
	found, err := credentials.DetectDefault(&credentials.DetectOptions{
		Scopes: []string{storage.ScopeFullControl, "https://www.googleapis.com/auth/cloud-platform"}, // as package storage asks for
	})
	if file := os.Getenv(fileVariable); err != nil && file != "" {
		return nil, fmt.Errorf("%s is %q: %w", fileVariable, file, err)
	}
	if err != nil {
		return nil, err
	}
	return auth.NewCredentials(&auth.CredentialsOptions{
		TokenProvider:          refusingTokens{found},
		JSON:                   found.JSON(),
		ProjectIDProvider:      auth.CredentialsPropertyFunc(found.ProjectID),
		QuotaProjectIDProvider: auth.CredentialsPropertyFunc(found.QuotaProjectID),
		UniverseDomainProvider: auth.CredentialsPropertyFunc(found.UniverseDomain),
	}), nil
}

// refusingTokens returns a Refusal when credentials cannot give a token, so that a request with a damaged key or a deleted account
// is not repeated for minutes.
type refusingTokens struct{ auth.TokenProvider }

// Token implements auth.TokenProvider.
func (r refusingTokens) Token(ctx context.Context) (*auth.Token, error) {
	token, err := r.TokenProvider.Token(ctx)
	var answer *auth.Error
	var network *url.Error
	switch {
	case err == nil || ctx.Err() != nil:
		return token, err
	case errors.As(err, &answer):
		if answer.Temporary() || answer.Response == nil || answer.Response.StatusCode < 400 || answer.Response.StatusCode > 499 {
			return nil, err
		}
	case errors.As(err, &network): // the server of the tokens was not reached
		return nil, err
	}
	return nil, &objects.Refusal{Status: http.StatusUnauthorized, Code: "noToken", Text: "no token for the credentials: " + err.Error()}
}
