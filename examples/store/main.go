// Command azbeam is latentbeam with outputs, inputs and models in Azure Blob Storage: az://container/prefix. Copy this directory to begin a
// program of your own.
//
//	AZURE_STORAGE_ACCOUNT     the account: its service is https://ACCOUNT.blob.core.windows.net
//	AZURE_STORAGE_ENDPOINT    the whole address instead, for an emulator: http://127.0.0.1:10000/devstoreaccount1
//	AZURE_STORAGE_SAS_TOKEN   a shared access signature that may read, write, delete and list
package main

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"strings"

	"latentbeam"
	"latentbeam/schemas/objects"
)

func main() {
	os.Exit(latentbeam.Run(latentbeam.Extra{Schemes: []objects.Scheme{{Name: "az", Open: open, Secrets: secrets}}}))
}

// open returns the service of a container. It makes no request.
func open(_ context.Context, container string) (objects.Service, error) {
	endpoint := os.Getenv("AZURE_STORAGE_ENDPOINT")
	if account := os.Getenv("AZURE_STORAGE_ACCOUNT"); endpoint == "" && account != "" {
		endpoint = "https://" + account + ".blob.core.windows.net"
	}
	base, err := url.Parse(strings.TrimSuffix(endpoint, "/"))
	if err != nil || base.Host == "" {
		return nil, errors.New("set AZURE_STORAGE_ACCOUNT, or AZURE_STORAGE_ENDPOINT to an address such as http://127.0.0.1:10000/devstoreaccount1")
	}
	signature, err := url.ParseQuery(strings.TrimPrefix(os.Getenv("AZURE_STORAGE_SAS_TOKEN"), "?"))
	if err != nil || len(signature) == 0 {
		return nil, errors.New("set AZURE_STORAGE_SAS_TOKEN to a shared access signature that may read, write, delete and list")
	}
	// A redirect would send the signature to another host.
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &blobs{client: client, base: base.JoinPath(container), signature: signature}, nil
}

// secrets are what no message may show.
func secrets() []string {
	signature, _ := url.ParseQuery(strings.TrimPrefix(os.Getenv("AZURE_STORAGE_SAS_TOKEN"), "?"))
	return []string{signature.Get("sig"), url.QueryEscape(signature.Get("sig"))}
}
