//go:build !prism

package runners

import (
	"context"
	"errors"
)

// prismMissing is the reason why this build cannot run prism. Prism and its dependencies would be a third of the binary.
const prismMissing = "this build has no prism: go build -tags prism"

func runPrism(context.Context, Launch) error { return errors.New(prismMissing) }
