//go:build !prism

package runners

import (
	"context"
	"errors"
)

// prismMissing is what this build lacks to run prism: prism and what it links would make a third of the binary.
const prismMissing = "this build has no prism: go build -tags prism"

func runPrism(context.Context, Launch) error { return errors.New(prismMissing) }
