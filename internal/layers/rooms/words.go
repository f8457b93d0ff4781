package main

import (
	"maps"
	"slices"
)

// mostHomes is how many rooms may declare a type of one name.
const mostHomes = 2

// words are the names of types that more rooms may have, because each room has its own of one thing.
var words = map[string]string{
	"Backend":   "kernels.Backend, and a device's implementation of it",
	"Batch":     "what a stage takes at once, as the room sees it",
	"Clock":     "time that a test can bring",
	"Config":    "settings as a file writes them: a model's config.json, the job",
	"Encoder":   "what encodes a text, an image or a clip",
	"Error":     "an error of the room's own kind",
	"Library":   "a shared library that is looked for at run time",
	"Model":     "a network with its weights on a device, or the files of one",
	"Options":   "settings of a room or of its main function",
	"Tensor":    "numbers with a shape and a type, wherever they lie",
	"attention": "a part of a network, as its reference names it",
	"batch":     "a network on some rows",
	"block":     "a part of a network, as its reference names it; of a kernel: a part of a matrix",
	"decoder":   "what undoes the encoding of the room",
	"denoiser":  "a model of a family with the options of a job",
	"encoder":   "what encodes in the way of the room",
	"layer":     "a part of a network, as its reference names it",
	"norm":      "a normalisation, as its reference defines it",
	"options":   "a stage's map in the job file",
	"service":   "the requests of one protocol",
	"stage":     "the stages.Stage of the room",
}

// waiting are homonyms that wait for better names. The list only becomes shorter.
const waiting = "Clip Memory Stage"

// homonyms returns the names of types that too many rooms declare, each with its rooms.
func (t *tree) homonyms() map[string][]string {
	found := map[string][]string{}
	for name, homes := range maps.All(t.types) {
		homes = slices.Compact(slices.Sorted(slices.Values(homes)))
		if words[name] == "" && len(homes) > mostHomes {
			found[name] = homes
		}
	}
	return found
}
