// Package aspect knows the sizes that Open-Sora was trained on: a resolution, which names a number of pixels,
// and an aspect ratio, height:width, give height and width; a length such as 4s gives a number of frames.
//
// Only names and numbers live here, nothing of rows or models. A resolution more is a line in sizes.txt.
package aspect
