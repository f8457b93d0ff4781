// Command latentbeam runs offline video-diffusion jobs: a prompt table goes in, videos and parquet
// tables come out.
package main

import (
	"os"

	"latentbeam"
)

func main() { os.Exit(latentbeam.Main()) }
