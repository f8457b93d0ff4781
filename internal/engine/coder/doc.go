// Package coder writes elements, and the saved steps of samplings, as bytes for other processes, and reads them again.
package coder
